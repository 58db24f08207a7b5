"""Nodes of the Kernel form.

A kernel is a tree of frozen statements over buffers. Conditions, indices and values are scalar
expressions (`ir/scalar.py`); `Element` reads a buffer in one. Each class says what it becomes in
CUDA. Statements that every thread of the block must reach together say so (`collective`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from warpsmith.ir.carry import Carry
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.kernel.effects import (
    WRITE,
    Done,
    Effect,
    Orders,
    body,
    defines,
    expression,
    needs,
    nested,
    plain,
    reads,
    touches,
    updates,
    writes,
)
from warpsmith.kernel.forms import Declared
from warpsmith.kernel.orders import Order
from warpsmith.kernel.tiles import TensorMap, TileNeeds

if TYPE_CHECKING:
    from warpsmith.kernel.pipelines import Pipeline
    from warpsmith.kernel.shared_memory import SharedLayout


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of one tensor. `size` counts elements; local ones become register arrays.

    Attributes:
        guarded: the accesses are ordered by a pipeline, and need no other barrier.
        alignment: bytes that a shared buffer's address is a multiple of.
        packed: bools in registers take a bit each.
    """

    name: str
    dtype: DataType
    memory: MemoryType
    size: Expr
    written: bool = True
    guarded: bool = False
    alignment: int = 16
    packed: bool = False


COPIED = Effect(writes=True, done=Done.COPIES, words="cp.async writes")
"""By `cp.async` of threads that each choose their elements."""


class Element(Expr):
    """The value of `buffer[index]`."""

    __slots__ = ("buffer", "index")

    def __init__(self, buffer: Buffer, index: Expr) -> None:
        self.buffer = buffer
        self.index = index
        self.dtype = buffer.dtype
        self._hash = hash((Element, buffer.name, index))

    @property
    def args(self) -> tuple[Expr, ...]:
        return (self.index,)

    def key(self) -> tuple[object, ...]:
        return (self.buffer.name, self.index)

    def __repr__(self) -> str:
        return f"{self.buffer.name}[{self.index!r}]"


@dataclass(frozen=True, slots=True)
class Statement(Declared, orders=Orders.NOTHING):
    """Base of the statements.

    Attributes:
        number: by which `Kernel.orders` knows a statement that orders others; 0 for all others.
    """

    collective: ClassVar[bool] = False

    number: int = field(default=0, compare=False, repr=False, kw_only=True, metadata=plain())


@dataclass(frozen=True, slots=True)
class Declare(Statement, orders=Orders.NOTHING):
    """A local buffer comes into being, uninitialized: `T buffer[size];`"""

    words = "{buffer.name}: {buffer.dtype}[{buffer.size}] {buffer.memory}{buffer.packed: bits}"

    buffer: Buffer = field(metadata=plain())


@dataclass(frozen=True, slots=True)
class Let(Statement):
    """A named value that does not change: `const T symbol = value;`"""

    words = "{symbol} = {value}"

    symbol: Symbol = field(metadata=defines())
    value: Expr = field(metadata=expression())


@dataclass(frozen=True, slots=True)
class For(Statement):
    """A counted loop from 0; `unroll` becomes `#pragma unroll`, else the loop stays rolled.

    `pipelines` names those of which each iteration passes a stage, until they are lowered.
    """

    words = "for {symbol} < {extent}{unroll: unrolled}{pipelines: passes %}"

    symbol: Symbol = field(metadata=defines())
    extent: Expr = field(metadata=expression())
    body: tuple[Statement, ...] = field(metadata=body())
    unroll: bool = field(metadata=plain())
    pipelines: tuple[str, ...] = field(default=(), metadata=plain())


@dataclass(frozen=True, slots=True)
class If(Statement):
    """Statements that run where `condition` holds.

    None of them is collective, unless the condition is `uniform`: equal in all threads of a block.
    """

    words = "if {condition}"

    condition: Expr = field(metadata=expression())
    body: tuple[Statement, ...] = field(metadata=body())
    uniform: bool = field(default=False, metadata=plain())


@dataclass(frozen=True, slots=True)
class Store(Statement):
    """`buffer[index] = value;`"""

    words = "{buffer} = {value}"

    buffer: Buffer = field(metadata=writes("index"))
    index: Expr = field(metadata=expression())
    value: Expr = field(metadata=expression())


@dataclass(frozen=True, slots=True)
class CopyVector(Statement):
    """`width` adjacent elements in one memory access; the types of both sides are equal.

    A `streaming` load leaves no copy in L1; what an `evict_last` one brings into the L2 is
    the last to go. An `asynchronous` one, from global to shared memory, is `cp.async`.
    """

    words = "{target} = {source} x{width}"

    target: Buffer = field(metadata=touches("copied", "target_index", "width"))
    target_index: Expr = field(metadata=expression())
    source: Buffer = field(metadata=reads("source_index", "width"))
    source_index: Expr = field(metadata=expression())
    width: int = field(metadata=plain())
    streaming: bool = field(default=False, metadata=plain())
    evict_last: bool = field(default=False, metadata=plain())
    asynchronous: bool = field(default=False, metadata=plain())

    @property
    def copied(self) -> Effect:
        """What becomes of the target."""
        return COPIED if self.asynchronous else WRITE


@dataclass(frozen=True, slots=True)
class Accumulate(Statement):
    """Join a state with the one in `buffers`, a buffer for each of its values, at `index`.

    The one in `buffers` is of elements before those of the part, or with `ahead` behind them.
    """

    words = "{buffers} {carry.name}= {part}{ahead:, from ahead}"

    carry: Carry = field(metadata=plain())
    buffers: tuple[Buffer, ...] = field(metadata=updates("index"))
    index: Expr = field(metadata=expression())
    part: tuple[Expr, ...] = field(metadata=expression())
    ahead: bool = field(default=False, metadata=plain())


@dataclass(frozen=True, slots=True)
class WelfordBatch(Declared):
    """Steps that reach the running triples together, when the last of them is done.

    Until then they collect distances to `shift`, one element of the three buffers a triple.

    Attributes:
        step: number of this step, from 0.
        steps: how many there are.
    """

    words = "step {step} of {steps}"

    step: Expr = field(metadata=expression())
    steps: int = field(metadata=plain())
    shift: Buffer = field(metadata=updates(count=""))
    sum: Buffer = field(metadata=updates(count=""))
    squares: Buffer = field(metadata=updates(count=""))


@dataclass(frozen=True, slots=True)
class WelfordStep(Statement):
    """Add values to running (mean, m2, count), at the cost of one reciprocal for all of them.

    Either each value has a mean and m2 of its own, at `index + k`, and all share the count at
    `count_index`; or, when `joined`, all values go to the one triple at `index`. Steps of one
    `batch` share a reciprocal too.
    """

    words = "welford {mean} += {values}{batch:, %}"

    mean: Buffer = field(metadata=updates("index", "triples"))
    m2: Buffer = field(metadata=updates("index", "triples"))
    count: Buffer = field(metadata=updates("count_index"))
    index: Expr = field(metadata=expression())
    count_index: Expr = field(metadata=expression())
    values: tuple[Expr, ...] = field(metadata=expression())
    joined: bool = field(default=False, metadata=plain())
    batch: WelfordBatch | None = field(default=None, metadata=nested())

    @property
    def triples(self) -> int:
        """Means, and m2, that it adds to."""
        return 1 if self.joined else len(self.values)


@dataclass(frozen=True, slots=True)
class Reduce(Statement, orders=Orders.PART):
    """Join states of every thread across the block, and across the grid if asked.

    `buffers` are those of a state's values. Elements
    `index .. index + elements - 1` of all threads that agree on the axes not reduced are combined;
    every thread of the block gets the result. With `grid_axes`, only the block that arrives last
    among those of one segment does; `last` is then true in it alone.

    Attributes:
        first: only the threads at 0 along `block_axes` get the result.
        lanes: the lanes of each warp alone combine their values, which takes no scratch. The block
            is whole warps along x.
        blocks: of a cluster, which combine what each has reduced, too, until `exchange_parts`.
        fresh: first element of the scratch, or of a group's part of it, that no thread reads any
            more; None where threads meet before they write the scratch.
    """

    collective: ClassVar[bool] = True
    words = "reduce {carry.name} {buffers!s} x{elements} over {over}{first:, for the first}"

    carry: Carry = field(metadata=plain())
    buffers: tuple[Buffer, ...] = field(metadata=updates("index", "elements"))
    index: Expr = field(metadata=expression())
    elements: int = field(metadata=plain())
    block_axes: tuple[ParallelType, ...] = field(metadata=plain())
    scratch: Buffer = field(metadata=needs())
    grid_axes: tuple[ParallelType, ...] = field(default=(), metadata=plain())
    last: Symbol | None = field(default=None, metadata=defines())
    workspace: Buffer | None = field(default=None, metadata=needs())
    semaphore: Buffer | None = field(default=None, metadata=needs())
    first: bool = field(default=False, metadata=plain())
    lanes: bool = field(default=False, metadata=plain())
    blocks: int = field(default=1, metadata=plain())
    fresh: Expr | None = field(default=None, metadata=expression())

    @property
    def over(self) -> str:
        """What it combines, in words."""
        axes = [axis.name for axis in (*self.block_axes, *self.grid_axes)]
        blocks = [f"{self.blocks} blocks"] if self.blocks > 1 else []
        return ", ".join([*(["lanes"] if self.lanes else axes), *blocks])


@dataclass(frozen=True, slots=True)
class ScanElements(Statement, orders=Orders.PART):
    """Replace each element by the state of all before it, by the rule, and carry on the state.

    Elements `index .. index + elements - 1` of a thread follow each other, and the threads along
    the axis in `block_axes`, if there is one, side by side. `states` hold at `state_index` what
    came before all of them, the same in threads that differ along that axis alone, and then what
    comes behind.

    Attributes:
        exclusive: the element itself is left out.
        reverse: elements are taken from the last to the first.
        blocks: of a cluster, which follow each other, until `exchange_parts`.
    """

    collective: ClassVar[bool] = True
    words = "scan {carry.name} {buffers!s} x{elements} over {over}{exclusive:, exclusive}" + (
        "{reverse:, from the end}"
    )

    carry: Carry = field(metadata=plain())
    buffers: tuple[Buffer, ...] = field(metadata=updates("index", "elements"))
    index: Expr = field(metadata=expression())
    elements: int = field(metadata=plain())
    states: tuple[Buffer, ...] = field(metadata=updates("state_index"))
    state_index: Expr = field(metadata=expression())
    block_axes: tuple[ParallelType, ...] = field(metadata=plain())
    scratch: Buffer | None = field(metadata=needs())
    exclusive: bool = field(default=False, metadata=plain())
    reverse: bool = field(default=False, metadata=plain())
    blocks: int = field(default=1, metadata=plain())

    @property
    def over(self) -> str:
        """What shares the elements, in words."""
        blocks = [f"{self.blocks} blocks"] if self.blocks > 1 else []
        axes = [axis.name for axis in self.block_axes]
        return ", ".join([*blocks, *axes]) or "the thread's own"


@dataclass(frozen=True, slots=True)
class Synchronize(Statement, orders=Orders.MEETING):
    """All threads of the block meet; within the body of a role, those of its group."""

    collective: ClassVar[bool] = True
    words = "synchronize  ({why})"
    why: str = field(default="", metadata=plain())


@dataclass(frozen=True, slots=True)
class Comment(Statement, orders=Orders.NOTHING):
    """A line of words in the CUDA text."""

    words = "# {text}"

    text: str = field(metadata=plain())


@dataclass(frozen=True, slots=True)
class Launch:
    """Blocks and threads, as expressions over the kernel's scalar parameters.

    `blocks_per_sm` blocks are to fit on a multiprocessor at once; 0 leaves it to the compiler.
    Boxes of `cluster` blocks are clusters (`kernel/clusters.py`), and the grid is a multiple of it.
    With `last_first`, blocks count down along x.
    """

    grid: tuple[Expr, Expr, Expr]
    block: tuple[Expr, Expr, Expr]
    blocks_per_sm: int = 0
    cluster: tuple[int, int, int] = (1, 1, 1)
    last_first: bool = False

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
        reciprocals: magic numbers among the scalars, with the divisors that they stand for.
        derived: (scalar, value) that the launch computes from scalars before it.
        alignments: (parameter name, bytes) that its address must be a multiple of.
        budgets: what `engine/budgets.py` is to make the roles' registers of; None leaves them.
        early: it may be launched before the kernel before it has ended (`kernel/succession.py`).
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
    early: bool = False
    layout: SharedLayout | None = None
    orders: tuple[Order, ...] = field(default=(), compare=False)
    notes: tuple[str, ...] = field(default=())
