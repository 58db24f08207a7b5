"""Choice of block shape, unrolling and splitting for reductions.

Two shapes of the same schedule: the fastest dimension is reduced (**inner**), so that a thread's
vector is reduced too; or it is kept (**outer**), so that each lane of a vector is a result of its
own.
"""

from __future__ import annotations

from dataclasses import dataclass

from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import TensorView
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.layout import InnerRun, find_inner_run
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.can import after_reduction, reductions

THREADS = 256
"""Threads per block."""

BLOCKS_PER_SM = 4
"""Blocks that should be in flight on each multiprocessor before a reduction stays unsplit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionParams:
    """A reduction schedule.

    Attributes:
        inner: the fastest dimension is reduced.
        vector: adjacent elements per thread and access.
        unroll: accesses along the reduced dimension per thread, issued before the first use.
        kept_unroll: results (inner) per thread along the kept dimension.
        block_x: threads along the fastest dimension.
        block_y: threads along the other one.
        vectorized: names of the global tensors accessed in vectors.
    """

    inner: bool
    vector: int
    unroll: int
    kept_unroll: int
    block_x: int
    block_y: int
    vectorized: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """The domain of the reductions: its dimensions in memory order and what is kept of it."""

    axes: tuple[IterDomain, ...]
    run: InnerRun
    inner: bool

    @property
    def kept(self) -> Expr:
        return integers.mul(*(a.extent for a in self.axes if not a.is_reduction))

    @property
    def reduced(self) -> Expr:
        return integers.mul(*(a.extent for a in self.axes if a.is_reduction))


def shape_of(fusion: Fusion, domains: DomainMap, caches: tuple[Cached, ...]) -> Shape:
    """Order the dimensions as the largest input has them in memory, and find the inner run."""
    first = reductions(fusion)[0]
    axes = memory_ordered(domains, first, caches)
    after = after_reduction(fusion)
    before = [c for c in caches if id(c.register) not in after]
    inner = bool(axes) and axes[-1].is_reduction
    alike = len(axes)
    while alike and axes[alike - 1].is_reduction == inner:
        alike -= 1
    run = find_inner_run(domains, axes[alike:], before)
    if not inner:
        results = [c for c in caches if id(c.register) in after]
        run = find_inner_run(domains, axes[alike:], [*before, *results])
    return Shape(axes, run, inner)


def memory_ordered(
    domains: DomainMap, first: TensorView, caches: tuple[Cached, ...]
) -> tuple[IterDomain, ...]:
    """The reduction's dimensions, slowest first, as the input of the highest rank stores them."""
    axes = [axis for axis in first.logical if not axis.is_broadcast]
    place = {domains.group(axis): axis for axis in axes}
    loads = sorted((c for c in caches if c.load), key=lambda c: -c.memory.rank)
    for cached in loads:
        mirror = [cached.register.shape_axes[d] for d in cached.memory.memory_order()]
        found = [place[domains.group(a)] for a in mirror if domains.group(a) in place]
        if len(found) == len(axes):
            return tuple(found)
    return tuple(axes)


def choose(
    fusion: Fusion, domains: DomainMap, caches: tuple[Cached, ...], problem: Problem
) -> ReductionParams:
    """Block shape from the extent of the fastest dimension only: row counts change nothing."""
    shape = shape_of(fusion, domains, caches)
    vector = shape.run.vector(problem)
    vectorized = shape.run.vectorized(problem, vector)
    if shape.inner:
        per_thread = -(-problem.size(shape.reduced) // vector)
        block_x = min(THREADS, max(1, _power_of_two_above(per_thread)))
        long = per_thread > 2 * THREADS
        unroll = 4 if long else 1
        kept_unroll = 1
    else:
        per_thread = -(-problem.size(shape.kept) // vector)
        block_x = min(32, max(1, _power_of_two_above(per_thread)))
        unroll, kept_unroll = 4, 1
    return ReductionParams(
        inner=shape.inner,
        vector=vector,
        unroll=unroll,
        kept_unroll=kept_unroll,
        block_x=block_x,
        block_y=THREADS // block_x,
        vectorized=vectorized,
    )


def splits(shape: Shape, params: ReductionParams, problem: Problem) -> int:
    """How many blocks share one result: enough to fill the device, never less work than a pass."""
    kept, reduced = problem.size(shape.kept), problem.size(shape.reduced)
    if params.inner:
        groups = -(-kept // (params.block_y * params.kept_unroll))
        pass_ = params.block_x * params.vector * params.unroll
    else:
        groups = -(-kept // (params.block_x * params.vector))
        pass_ = params.block_y * params.unroll
    wanted = -(-problem.target.sm_count * BLOCKS_PER_SM // max(groups, 1))
    possible = max(1, -(-reduced // pass_))
    return max(1, min(wanted, possible, 65535))


def _power_of_two_above(value: int) -> int:
    return 1 << max(0, value - 1).bit_length()
