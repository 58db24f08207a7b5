"""Choice of columns a block, and of threads and accesses for them, where columns stay in registers.

A block that loads, reduces and stores waits in between, so what counts is how many bytes the blocks
of a multiprocessor hold together, how often blocks follow each other, and how wide the pieces of
rows are that a block reads. `shapes.time_us` puts these together; the fastest shape is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from warpsmith.ir.domains import IterDomain
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.program import Program
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.cover import full_passes
from warpsmith.schedulers.layout import InnerRun, find_inner_run
from warpsmith.schedulers.multiprocessor import CLUSTERS
from warpsmith.schedulers.normalization.applicability import walks_rows
from warpsmith.schedulers.normalization.resident import Choice, full_size
from warpsmith.schedulers.outer_persistent.shapes import (
    COPY_SHARE,
    Shape,
    Work,
    blocks_per_sm,
    registers,
    shapes,
    time_apart_us,
    time_us,
)
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.applicability import reductions
from warpsmith.schedulers.reduction.heuristic import memory_ordered

MOST_REGISTERS = 232
"""Registers that a thread may need by the count of `shapes`, which errs by some twenty."""

CLUSTER_GAIN = 0.9
"""Blocks exchange what they reduce where that makes the predicted time shorter than this share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterPersistentParams:
    """A schedule whose columns stay in registers.

    Attributes:
        vector: adjacent columns per thread and access.
        unroll: accesses of a thread and input, one below the other, all issued before the first
            use.
        cluster: blocks that share columns; 1 where they are one block's.
        block_x: threads side by side.
        block_y: threads one below the other.
        blocks_per_sm: blocks that a multiprocessor holds at once.
        exact: the threads' accesses are exactly a column's elements, so that none needs a
            predicate for them.
        full: accesses of each thread that need none in any block, where others do.
        even: the blocks' columns are exactly all that there are, likewise.
        reload_weights: inputs that lack the reduced dimensions, or all kept ones, are loaded when
            they are needed, not at the start.
        again: costly values are computed again, where that takes fewer registers than to keep them.
        vectorized: names of the global tensors accessed in vectors.
    """

    vector: int
    unroll: int
    cluster: int
    block_x: int
    block_y: int
    blocks_per_sm: int
    exact: bool
    even: bool
    reload_weights: bool
    again: bool
    vectorized: tuple[str, ...]
    full: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What a fusion says of its columns.

    Attributes:
        axes: the dimensions in memory order.
        run: the fastest of them, which a vector may walk.
        loads: bytes of an element of each input of full size.
        stores: the same of outputs.
        aside: bytes of inputs that lack what is reduced, for each column.
        sums: how many reductions there are.
    """

    axes: tuple[IterDomain, ...]
    run: InnerRun
    loads: tuple[int, ...]
    stores: tuple[int, ...]
    aside: int
    sums: int

    def work(self, problem: Problem) -> Work:
        """The sizes of a call."""
        length, width = (
            math.prod(problem.size(a.extent) for a in self.axes if a.is_reduction == gone)
            for gone in (True, False)
        )
        return Work(
            length=length,
            width=width,
            loaded=sum(self.loads),
            stored=sum(self.stores),
            widest=max((*self.loads, *self.stores), default=4),
            aside=self.aside,
            sums=self.sums,
            sms=problem.target.sm_count,
            bytes_per_us=COPY_SHARE * problem.target.rates.memory,
        )


def columns_of(fusion: Program, domains: DomainMap, caches: tuple[Cached, ...]) -> Columns:
    """Of a fusion with caches."""
    axes = memory_ordered(domains, reductions(fusion)[0], caches)
    start = len(axes)
    while start and not axes[start - 1].is_reduction:
        start -= 1
    full = full_size(fusion, domains, caches)
    whole = [c for c in caches if c.register in full]
    rows = walks_rows(fusion)
    others = [c for c in caches if c.load and c.register not in full | rows]
    return Columns(
        axes=axes,
        run=find_inner_run(domains, axes[start:], caches),
        loads=tuple(c.memory.dtype.size for c in whole if c.load),
        stores=tuple(c.memory.dtype.size for c in whole if not c.load),
        aside=sum(c.memory.dtype.size for c in others),
        sums=len(reductions(fusion)),
    )


def unsupported_sizes(columns: Columns, residents: tuple[Choice, ...], problem: Problem) -> str:
    """Why the columns of a call cannot stay in registers; empty where they can."""
    if not columns.run.axes:
        return "no dimension that it keeps lies fastest in memory"
    work = columns.work(problem)
    if work.length == 0 or work.width == 0:
        return "its columns are empty"
    columns_of_length = f"columns of {work.length} elements"
    found = _best(columns, residents, problem)
    if found is None:
        most = problem.target.runs(CLUSTERS)[-1]
        return f"{columns_of_length} do not fit in the registers of {most} blocks"
    if found.shape.cluster > 1 and found.merit[0] > time_apart_us(work):
        return f"{columns_of_length} fill {found.shape.cluster} blocks, and two kernels are faster"
    return ""


def choose(
    columns: Columns, residents: tuple[Choice, ...], problem: Problem
) -> OuterPersistentParams:
    """The shape that takes the least time, as `time_us` sees it."""
    best = _best(columns, residents, problem)
    assert best is not None, "sizes are supported where this is asked"
    shape, work = best.shape, columns.work(problem)
    return OuterPersistentParams(
        vector=shape.vector,
        unroll=shape.unroll,
        cluster=shape.cluster,
        block_x=shape.block_x,
        block_y=shape.block_y,
        blocks_per_sm=best.blocks_per_sm,
        exact=shape.exact(work),
        even=shape.even(work),
        reload_weights=best.reload_weights,
        again=best.again,
        vectorized=columns.run.vectorized(problem, shape.vector),
        full=full_passes(work.length, shape.block_y, shape.unroll, shape.cluster),
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """A shape with a way to keep columns; the smaller `merit`, its time first, the better."""

    merit: tuple[float, ...]
    shape: Shape
    blocks_per_sm: int
    reload_weights: bool
    again: bool


def _best(columns: Columns, residents: tuple[Choice, ...], problem: Problem) -> _Found | None:
    """The fastest shape of one block, or of more where they gain enough by it."""
    best: _Found | None = None
    for cluster in problem.target.runs(CLUSTERS):
        found = _fastest(columns, residents, problem, cluster)
        if found is not None and (best is None or found.merit[0] < CLUSTER_GAIN * best.merit[0]):
            best = found
    return best


def _fastest(
    columns: Columns, residents: tuple[Choice, ...], problem: Problem, cluster: int
) -> _Found | None:
    work = columns.work(problem)
    best: _Found | None = None
    vector = columns.run.vector(problem)
    while vector:
        ways = [
            (number + late, late, choice.again, size, aside, choice.passing)
            for number, choice in enumerate(residents)
            for size in [choice.bytes_per_element(max(1, 4 // vector))]
            for late, aside in ((False, columns.aside), (True, 0))
            if late or not choice.reload_weights
        ]
        for shape in shapes(work, vector, cluster):
            for rank, late, again, size, beside, passing in ways:
                needed = registers(work, shape, size, beside, passing, again=again)
                blocks = blocks_per_sm(needed, shape.threads, problem.target.family.limits)
                if needed > MOST_REGISTERS or not blocks:
                    continue
                covered = shape.unroll * shape.block_y
                time = time_us(work, shape, blocks)
                merit = (time, rank, -vector, covered, shape.threads)
                if best is None or merit < best.merit:
                    best = _Found(merit, shape, blocks, late, again)
        vector //= 2
    return best
