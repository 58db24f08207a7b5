"""Statements that join states: in a thread, of the threads of a block, and along a scan."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from warpsmith.ir import integers
from warpsmith.ir.carry import Carry
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.kernel.effects import (
    Orders,
    defines,
    expression,
    needs,
    nested,
    plain,
    updates,
    writes,
)
from warpsmith.kernel.forms import Declared
from warpsmith.kernel.nodes import Buffer, Statement
from warpsmith.kernel.traversal import walk
from warpsmith.values import dataclass


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
    `count_index`; or, when `joined`, all values go to the one triple at `index`: those `inside`,
    where it says which. Steps of one `batch` share a reciprocal too.
    """

    words = "welford {mean} += {values}{inside: where %}{batch:, %}"

    mean: Buffer = field(metadata=updates("index", "triples"))
    m2: Buffer = field(metadata=updates("index", "triples"))
    count: Buffer = field(metadata=updates("count_index"))
    index: Expr = field(metadata=expression())
    count_index: Expr = field(metadata=expression())
    values: tuple[Expr, ...] = field(metadata=expression())
    joined: bool = field(default=False, metadata=plain())
    inside: tuple[Expr, ...] = field(default=(), metadata=expression())
    batch: WelfordBatch | None = field(default=None, metadata=nested())

    @property
    def triples(self) -> int:
        """Means, and m2, that it adds to."""
        return 1 if self.joined else len(self.values)


@dataclass(frozen=True, slots=True)
class Sharing(Declared):
    """Which blocks have parts of one result, of those that share some of them.

    Attributes:
        number: of this block among these.
        count: of them; where it is one, nobody else is met.
        place: in the workspace, of the part of the first; the others' follow it.
        segment: number of the result.
    """

    words = "part {number} of {count}"

    number: Expr = field(metadata=expression())
    count: Expr = field(metadata=expression())
    place: Expr = field(metadata=expression())
    segment: Expr = field(metadata=expression())


@dataclass(frozen=True, slots=True)
class Reduce(Statement, orders=Orders.PART):
    """Join states of every thread across the block, and across the grid if asked.

    `buffers` are those of a state's values. Elements
    `index .. index + elements - 1` of all threads that agree on the axes not reduced are combined;
    every thread of the block gets the result. With `grid_axes`, those of all blocks of one segment
    do, which meet; or where there is a `last`, the block alone that arrives last among them, in
    which that is true.

    Attributes:
        first: only the threads at 0 along `block_axes` get the result.
        lanes: the lanes of each warp alone combine their values, which takes no scratch. The block
            is whole warps along x.
        blocks: of a cluster, which combine what each has reduced, too, until `exchange_parts`.
        fresh: first element of the scratch, or of a group's part of it, that no thread reads any
            more; None where threads meet before they write the scratch.
        kept: buffers of what this block keeps, where each of the cluster keeps a share of the
            results: of `elements`, as many as there are blocks, those that come by its rank.
        kept_index: first element of these.
        shared: who else has parts, where that is no axis of the grid.
        one_count: all elements of a thread are moments of as many values, under one number.
    """

    collective: ClassVar[bool] = True
    words = (
        "reduce {carry.name} {buffers!s} x{elements} over {over}{first:, for the first}"
        "{kept:, a share to %}{shared:, %}{one_count:, under one count}"
    )

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
    kept: tuple[Buffer, ...] = field(default=(), metadata=writes("kept_index", "share"))
    kept_index: Expr = field(default=integers.ZERO, metadata=expression())
    shared: Sharing | None = field(default=None, metadata=nested())
    one_count: bool = field(default=False, metadata=plain())

    @property
    def meets(self) -> bool:
        """Whether blocks of the grid wait for each other."""
        return bool(self.grid_axes) and self.last is None

    @property
    def share(self) -> int:
        """Elements that this block keeps."""
        return self.elements // self.blocks

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

    With `block_number`, blocks of the grid follow each other: `parts` of them share a row, and each
    waits for those before it, which have lower numbers.

    Attributes:
        exclusive: the element itself is left out.
        reverse: elements are taken from the last to the first.
        blocks: of a cluster, which follow each other, until `exchange_parts`.
        turns: in which threads lie side by side; each has an equal part of a thread's elements.
        block_number: of the block among all, as they start; the first `parts` have the first row.
        workspace: has room for a state of each block.
        semaphore: a word of each block, 0 before and after the launch.
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
    turns: int = field(default=1, metadata=plain())
    block_number: Expr | None = field(default=None, metadata=expression())
    parts: Expr = field(default=integers.ONE, metadata=expression())
    workspace: Buffer | None = field(default=None, metadata=needs())
    semaphore: Buffer | None = field(default=None, metadata=needs())

    @property
    def over(self) -> str:
        """What shares the elements, in words."""
        blocks = [f"{self.blocks} blocks"] if self.blocks > 1 else []
        blocks += [f"{self.parts!r} blocks of the grid"] if self.block_number is not None else []
        turns = [f"{self.turns} turns"] if self.turns > 1 else []
        axes = [axis.name for axis in self.block_axes]
        return ", ".join([*blocks, *turns, *axes]) or "the thread's own"


def blocks_meet(body: tuple[Statement, ...]) -> bool:
    """Whether blocks of the grid wait for each other, whichever starts first."""
    return any(isinstance(statement, Reduce) and statement.meets for statement in walk(body))


def waits_in_order(body: tuple[Statement, ...]) -> tuple[ScanElements, ...]:
    """Statements at which blocks of the grid wait for those with lower numbers."""
    scans = (statement for statement in walk(body) if isinstance(statement, ScanElements))
    return tuple(scan for scan in scans if scan.block_number is not None)
