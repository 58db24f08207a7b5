"""Iteration domains: the axes of a tensor, and the transforms between them.

A tensor has a **root** domain (before reshape or rfactor), a **logical** domain (its shape), an
**allocation** order (how memory is laid out) and a **loop** domain (the loops that compute it).
`Split` and `Merge` connect them. Which axes of different tensors are the same iteration is not
stored here; `ir/mapping.py` derives it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum

from warpsmith.ir import integers
from warpsmith.ir.scalar import Expr
from warpsmith.values import dataclass


class IterType(Enum):
    """What an axis means to its tensor."""

    iteration = "i"
    reduction = "r"
    broadcast = "b"

    __hash__ = object.__hash__  # as DataType's, and for its reason


class ParallelType(Enum):
    """What runs the iterations of a loop axis. Names follow nvFuser's Python."""

    serial = "serial"
    grid_x = "blockIdx.x"
    grid_y = "blockIdx.y"
    grid_z = "blockIdx.z"
    block_x = "threadIdx.x"
    block_y = "threadIdx.y"
    block_z = "threadIdx.z"
    cluster_x = "cluster.x"
    part = "part"
    dynamic = "dynamic"
    stream_k = "stream_k"
    vectorize = "vectorize"
    unroll = "unroll"
    unswitch = "unswitch"
    tma = "tma"
    mma = "mma"

    __hash__ = object.__hash__  # as DataType's, and for its reason

    @property
    def is_grid(self) -> bool:
        return self in GRID_TYPES

    @property
    def is_block(self) -> bool:
        return self in BLOCK_TYPES

    @property
    def is_of_blocks(self) -> bool:
        """True for grid and cluster axes, and parts of a sum that blocks have: all threads of a
        block have one index.
        """
        return self.is_grid or self in (ParallelType.cluster_x, ParallelType.part)

    @property
    def is_dealt(self) -> bool:
        """True where an iteration is not for the blocks that its number says, but for those to
        which it is handed, or which share it.
        """
        return self in (ParallelType.dynamic, ParallelType.stream_k)

    @property
    def is_thread(self) -> bool:
        """True for grid, cluster and block axes: no loop is emitted, a thread has one index."""
        return self.is_of_blocks or self.is_block

    @property
    def is_unrolled(self) -> bool:
        """True for unroll and for unswitch, which nvFuser tells apart by where predicates stand.

        Here one pass decides that for all loops: `lower/passes/split_full_passes.py`.
        """
        return self in (ParallelType.unroll, ParallelType.unswitch)


GRID_TYPES = (ParallelType.grid_x, ParallelType.grid_y, ParallelType.grid_z)
BLOCK_TYPES = (ParallelType.block_x, ParallelType.block_y, ParallelType.block_z)


class MemoryType(Enum):
    """Where a tensor lives. Names follow nvFuser's Python."""

    local = "local"
    shared = "shared"
    global_ = "global"


class IterDomain:
    """One axis.

    Args:
        extent: number of iterations; 1 for broadcast axes.
        kind: what the axis means to its tensor.
        clone_of: the axis of another tensor that this one repeats.
    """

    __slots__ = ("clone_of", "extent", "kind", "parallel")

    def __init__(
        self,
        extent: Expr,
        kind: IterType = IterType.iteration,
        *,
        clone_of: IterDomain | None = None,
        parallel: ParallelType = ParallelType.serial,
    ) -> None:
        self.extent = integers.ONE if kind is IterType.broadcast else extent
        self.kind = kind
        self.clone_of = clone_of
        self.parallel = parallel

    @property
    def is_reduction(self) -> bool:
        return self.kind is IterType.reduction

    @property
    def is_broadcast(self) -> bool:
        return self.kind is IterType.broadcast

    def clone(self, kind: IterType | None = None) -> IterDomain:
        """A new axis that is the same iteration, for another tensor; serial."""
        return IterDomain(self.extent, kind or self.kind, clone_of=self)

    def __repr__(self) -> str:
        suffix = "" if self.parallel is ParallelType.serial else f" {self.parallel.value}"
        return f"{self.kind.value}[{self.extent!r}{suffix}]"


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """`axis` becomes `outer`, `inner`: `index(axis) = index(outer) * extent(inner) + index(inner)`.

    The extents need not divide: the last outer iteration may run past the end of `axis`. `factor`
    is the extent of the inner part, or of the outer one if not `inner_split`.

    With `by_group`, the rows of each group of a grouped product are split for themselves: an outer
    iteration has rows of one group, and which, memory says (`ir/groups.py`).

    With `rows`, axes that together, the slowest first, count rows of as many elements as `axis`
    has, which lie one behind the other in memory, outer iterations begin at multiples of `factor`
    there, and not of the row: `index(axis) = index(outer) * factor + index(inner) - head`, where
    `head` is what stands before the row in the first of them, `index(rows) * extent(axis) % grain`,
    and `grain` the factor, or what divides it where outer iterations are to begin at multiples of
    less.
    """

    axis: IterDomain
    outer: IterDomain
    inner: IterDomain
    factor: Expr
    inner_split: bool
    by_group: bool = False
    rows: tuple[IterDomain, ...] = ()
    grain: Expr = integers.ONE

    @property
    def results(self) -> tuple[IterDomain, ...]:
        return (self.outer, self.inner)


@dataclass(frozen=True, slots=True, eq=False)
class Merge:
    """`outer`, `inner` become `axis`, with the same relation of indices; always exact.

    With a `band`, so many outer iterations are walked together: all of them at the first inner one,
    then at the next. The last band has what is left. Bands of 2 number 3 x 4 iterations::

        0 2 4 6
        1 3 5 7
        8 9 10 11
    """

    outer: IterDomain
    inner: IterDomain
    axis: IterDomain
    band: int = 1

    @property
    def results(self) -> tuple[IterDomain, ...]:
        return (self.axis,)


Transform = Split | Merge


def split(
    axis: IterDomain, factor: Expr, *, inner_split: bool = True, other: Expr | None = None
) -> Split:
    """Divide an axis; `factor` is the extent of the inner part, or of the outer one.

    `other` is the extent of the other part, where more is known of it than how often the factor
    goes into the axis.
    """
    if other is None:
        other = integers.ceildiv(axis.extent, factor)
    outer, inner = (other, factor) if inner_split else (factor, other)
    parts = IterDomain(outer, axis.kind), IterDomain(inner, axis.kind)
    return Split(axis, *parts, factor, inner_split)


def split_by_group(axis: IterDomain, factor: Expr, outer: Expr) -> Split:
    """Divide the rows of a grouped product; `outer` is how many parts there are."""
    parts = IterDomain(outer, axis.kind), IterDomain(factor, axis.kind)
    return Split(axis, *parts, factor, True, by_group=True)


def split_across(
    axis: IterDomain, factor: Expr, rows: tuple[IterDomain, ...], grain: Expr
) -> Split:
    """Divide what each of the `rows` has, by the factor, from a multiple of the grain in memory."""
    outer = IterDomain(pieces_across(axis.extent, factor, grain), axis.kind)
    inner = IterDomain(factor, axis.kind)
    return Split(axis, outer, inner, factor, True, rows=rows, grain=grain)


def pieces_across(extent: Expr, factor: Expr, grain: Expr) -> Expr:
    """How many pieces of so many elements a row may lie in, wherever it begins."""
    return integers.ceildiv(integers.add(extent, grain, -1), factor)


def merge(outer: IterDomain, inner: IterDomain, band: int = 1) -> Merge:
    """Join two axes; broadcast joined with anything takes the other's kind."""
    kind = inner.kind if outer.is_broadcast else outer.kind
    return Merge(outer, inner, IterDomain(integers.mul(outer.extent, inner.extent), kind), band)


def of_axes(transform: Transform, new: Callable[[IterDomain], IterDomain]) -> Transform:
    """The same transform of other axes."""
    axis, outer, inner = map(new, (transform.axis, transform.outer, transform.inner))
    if isinstance(transform, Split) and transform.rows:
        rows = tuple(map(new, transform.rows))
        return replace(transform, axis=axis, outer=outer, inner=inner, rows=rows)
    return replace(transform, axis=axis, outer=outer, inner=inner)
