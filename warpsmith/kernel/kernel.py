"""`Kernel`: a body of statements, with all that its text, its proof and its launch need to know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from operator import is_

from warpsmith.errors import InternalError
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Expr, Symbol, evaluate
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.nodes import Buffer, Statement
from warpsmith.kernel.orders import Order
from warpsmith.kernel.pipelines import Pipeline
from warpsmith.kernel.shared_memory import SharedLayout
from warpsmith.kernel.tiles import TensorMap, TileNeeds
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Launch:
    """Blocks and threads, as expressions over the kernel's scalar parameters.

    `blocks_per_sm` blocks are to fit on a multiprocessor at once; 0 leaves it to the compiler.
    Boxes of `cluster` blocks are clusters (`kernel/clusters.py`), and the grid is a multiple of it.
    With `last_first`, blocks count down along x. With `together`, all blocks run at once, or none
    does (a cooperative launch).
    """

    grid: tuple[Expr, Expr, Expr]
    block: tuple[Expr, Expr, Expr]
    blocks_per_sm: int = 0
    cluster: tuple[int, int, int] = (1, 1, 1)
    last_first: bool = False
    together: bool = False

    @property
    def cluster_blocks(self) -> int:
        """Blocks of a cluster."""
        x, y, z = self.cluster
        return x * y * z


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """What is wished of the registers of a kernel's roles; with neither, all are derived.

    Attributes:
        pair: registers of a thread in the warp groups of agents that copy or store, and in all
            others.
        roles: registers of a thread in some roles, by name; those of the others are derived.
    """

    pair: tuple[int, int] | None = None
    roles: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Reciprocal:
    """Numbers by which a launch replaces a division by `divisor`, for dividends below 2**31.

    With `shift = ceil(log2(divisor))` and `magic = 2**32 * (2**shift - divisor) / divisor + 1`, the
    quotient is `(high32(x * magic) + x) >> shift` (Granlund and Montgomery, PLDI 1994).
    """

    divisor: Expr
    magic: Symbol
    shift: Symbol

    @staticmethod
    def values(divisor: int) -> tuple[int, int]:
        """Magic number, as a signed 32-bit integer, and shift; a divisor of 0 is never used."""
        divisor = max(divisor, 1)
        shift = (divisor - 1).bit_length()
        magic = (1 << 32) * ((1 << shift) - divisor) // divisor + 1
        return magic - (1 << 32) if magic >= 1 << 31 else magic, shift


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One kernel.

    Attributes:
        parameters: global buffers in the order of the arguments, then `tensor_maps`, `scalars`.
        tensor_maps: what launches encode for the TMA unit.
        tile_needs: what launches check before the TMA unit may copy a tensor.
        left_to_threads: tensors that were to be copied by TMA and are not, each with the reason.
        pipelines: stages that are filled and used in turn; once they are lowered, those that
            mbarriers guard.
        orders: dependences between accesses, and what orders them; empty before they are ordered.
        exchanged: names of the buffers of which some thread reads what another one wrote.
        scalars: sizes, strides, user's scalars and launch symbols that the body uses.
        shared: shared buffers, in dynamic shared memory.
        offsets: bytes at which some of them are to lie, as buffers that are never alive together
            do; the others follow one after the other.
        layout: where all of them lie; None until `lay_out_shared`.
        requirements: (expression, divisor) that the launch must check.
        limits: (expression, largest value) that the launch must check.
        least: (expression, smallest value) that the launch must check.
        reciprocals: magic numbers among the scalars, with the divisors that they stand for.
        derived: (scalar, value) that the launch computes from scalars before it.
        alignments: (parameter name, bytes) that its address must be a multiple of.
        budgets: what `engine/budgets.py` is to make the roles' registers of; None leaves them.
        kept_turns: turns of which blocks keep what they load in shared memory, until `keep_turns`;
            None where they keep none.
        at_once: blocks along x, which loop over what the grid has there, until `loop_over_groups`;
            None where these are all.
        behind: nanoseconds by which every other one of them begins later.
        early: it may be launched before the kernel before it has ended (`kernel/succession.py`).
        settled: parameters that no kernel of the call writes, which it reads before that.
    """

    name: str
    parameters: tuple[Buffer, ...]
    scalars: tuple[Symbol, ...]
    shared: tuple[Buffer, ...]
    body: tuple[Statement, ...]
    launch: Launch
    index_type: DataType
    requirements: tuple[tuple[Expr, int], ...] = ()
    limits: tuple[tuple[Expr, int], ...] = ()
    least: tuple[tuple[Expr, int], ...] = ()
    alignments: tuple[tuple[str, int], ...] = ()
    reciprocals: tuple[Reciprocal, ...] = ()
    derived: tuple[tuple[Symbol, Expr], ...] = ()
    tensor_maps: tuple[TensorMap, ...] = ()
    tile_needs: tuple[TileNeeds, ...] = ()
    offsets: tuple[tuple[str, int], ...] = ()
    exchanged: frozenset[str] = frozenset()
    left_to_threads: tuple[tuple[str, str], ...] = ()
    pipelines: tuple[Pipeline, ...] = ()
    budgets: Budgets | None = None
    kept_turns: int | None = None
    at_once: Symbol | None = None
    behind: Symbol | None = None
    early: bool = False
    settled: tuple[str, ...] = ()
    layout: SharedLayout | None = None
    orders: tuple[Order, ...] = field(default=(), compare=False)
    notes: tuple[str, ...] = field(default=())

    @property
    def branches(self) -> tuple[Branch, ...]:
        """What each agent does; none where all threads run the body itself."""
        return tuple(s for s in self.body if isinstance(s, Branch))

    def map_branches(self, change: Callable[[Branch], Branch]) -> Kernel:
        """The kernel with `change` of each branch; itself where all of them are the same."""
        body = tuple(change(s) if isinstance(s, Branch) else s for s in self.body)
        return self if all(map(is_, body, self.body)) else replace(self, body=body)

    def with_body(self, body: tuple[Statement, ...]) -> Kernel:
        """The kernel with these statements; itself where it has them."""
        return self if body == self.body else replace(self, body=body)

    def with_derived(self, values: Mapping[str, int]) -> dict[str, int]:
        """The values of a launch, with those of scalars that it works out, where not given."""
        known = dict(values)
        for reciprocal in self.reciprocals:
            magic, shift = Reciprocal.values(evaluate(reciprocal.divisor, known))
            known |= {reciprocal.magic.name: magic, reciprocal.shift.name: shift}
        for symbol, value in self.derived:
            known.setdefault(symbol.name, evaluate(value, known))
        return known


def layout_of(kernel: Kernel) -> SharedLayout:
    """The layout that `lay_out_shared` gave a kernel. Raises InternalError where it did not."""
    if kernel.layout is not None:
        return kernel.layout
    raise InternalError(f"{kernel.name}: shared memory has not been laid out")
