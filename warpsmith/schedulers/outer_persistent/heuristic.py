"""Choice of columns a block, and of threads and accesses for them, where columns stay in registers.

A block that loads, reduces and stores waits in between, so what counts is how many bytes the blocks
of a multiprocessor hold together, how often blocks follow each other, and how wide the pieces of
rows are that a block reads. `shapes.time_us` puts these together; the fastest shape is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

from warpsmith.schedulers.kept import bytes_of_one_pass
from warpsmith.schedulers.layout import InnerRun
from warpsmith.schedulers.multiprocessor import CLUSTERS
from warpsmith.schedulers.outer_grid.shapes import GAIN
from warpsmith.schedulers.outer_grid.shapes import Work as SharedWork
from warpsmith.schedulers.outer_grid.shapes import best as best_of_grid
from warpsmith.schedulers.outer_persistent.shapes import (
    COPY_SHARE,
    START_US,
    OuterPersistentParams,
    Work,
    blocks_per_sm,
    registers,
    shapes,
    time_apart_us,
    time_us,
)
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows.applicability import walks_rows
from warpsmith.schedulers.rows.rows import Rows
from warpsmith.values import dataclass

MOST_REGISTERS = 232
"""Registers that a thread may need by the count of `shapes`, which errs by some twenty."""

MOST_GUARDED = 24
"""Accesses of a thread with a predicate each up to which all of them are under way at once, of one
input: of more, and of several inputs, NVRTC 13.0 has loads wait for what uses others. Backward of
group norm at 134x160x47x47 then took three times as long as a copy (one H100, 2026-11-26)."""

NARROW_LOSS = 0.03
"""Of a time, for each halving of the vectors: twice the loads, and their addresses. An estimate."""

CLUSTER_GAIN = 0.9
"""Blocks exchange what they reduce where that makes the predicted time shorter than this share."""


@dataclass(frozen=True)
class Columns(Rows):
    """The columns of a fusion with caches: as rows, but what is reduced is not the fastest."""

    @cached_property
    def run(self) -> InnerRun:
        """The fastest of the dimensions that are kept, which a vector may walk."""
        return self._tail(reduced=False)

    @cached_property
    def aside(self) -> int:
        """Bytes of inputs that lack what is reduced, for each column."""
        there = walks_rows(self.fusion) | {cached.register for cached in self.full}
        others = (c for c in self.caches if c.load and c.register not in there)
        return sum(c.memory.dtype.size for c in others)

    def work(self, problem: Problem, cluster: int = 1) -> Work:
        """The sizes of a call, whose columns are those of clusters of so many blocks."""
        return Work(
            length=self.length(problem),
            width=self.count(problem),
            loaded=self.loaded,
            stored=self.stored,
            widest=max((c.memory.dtype.size for c in self.full), default=4),
            inputs=len(self.loads),
            sums=len(self.sums),
            sms=cluster * problem.target.teams(cluster),
            bytes_per_us=COPY_SHARE * problem.target.rates.memory,
        )


def shared_work(columns: Columns, problem: Problem, held: dict[str, Any]) -> SharedWork:
    """The sizes of a call, for blocks of a grid that share columns, and the bytes of what they
    have.
    """
    return SharedWork(
        length=columns.length(problem),
        width=columns.count(problem),
        run=problem.size(columns.run.extent),
        widest=max((c.memory.dtype.size for c in columns.full), default=4),
        **held,
    )


def unsupported_sizes(columns: Columns, problem: Problem, *, grid: bool = False) -> str:
    """Why the columns of a call cannot stay in registers; empty where they can.

    Args:
        grid: the blocks of a grid may keep them, too.
    """
    if not columns.run.axes:
        return "no dimension that it keeps lies fastest in memory"
    work = columns.work(problem)
    if work.length == 0 or work.width == 0:
        return "its columns are empty"
    columns_of_length = f"columns of {work.length} elements"
    found = _best(columns, problem)
    if found is None:
        most = problem.target.runs(CLUSTERS)[-1]
        return f"{columns_of_length} do not fit in the registers of {most} blocks"
    (us, *_), params = found
    several = params.cluster > 1
    fill = f"{columns_of_length} fill {f'{params.cluster} blocks' if several else 'a block'}"
    if several and us + START_US > time_apart_us(work):
        return f"{fill}, and two kernels are faster"
    if grid and (several or params.blocks_per_sm == 1):  # else one loads while another waits
        shared = shared_work(columns, problem, bytes_of_one_pass(columns))
        whole = best_of_grid(shared, columns.run.vector(problem), problem.target)
        if whole is not None and GAIN * (us + START_US) > whole[0]:
            return f"{fill}, and a grid is faster"
    return ""


def choose(columns: Columns, problem: Problem) -> OuterPersistentParams:
    """The shape that takes the least time, as `time_us` sees it."""
    best = _best(columns, problem)
    assert best is not None, "sizes are supported where this is asked"
    return finished(columns, best[1], problem)


def finished(
    columns: Columns, params: OuterPersistentParams, problem: Problem
) -> OuterPersistentParams:
    """A shape, with names of what is accessed in vectors, and how its last accesses are guarded."""
    names, inputs = columns.run.vectorized(problem, params.vector), len(columns.loads)
    many = inputs > 1 or params.unroll > MOST_GUARDED
    return replace(params, vectorized=names, masked=many)


Found = tuple[tuple[float, ...], OuterPersistentParams]
"""A shape with a way to keep columns, behind its merit: the smaller, its time first, the better."""


def _best(columns: Columns, problem: Problem) -> Found | None:
    """The fastest shape of one block, or of more where they gain enough by it."""
    best: Found | None = None
    for cluster in problem.target.runs(CLUSTERS):
        found = _fastest(columns, problem, cluster)
        if found is not None and (best is None or found[0][0] < CLUSTER_GAIN * best[0][0]):
            best = found
    return best


def considered(columns: Columns, problem: Problem) -> Iterator[Found]:
    """All shapes, of one block and of more."""
    for cluster in problem.target.runs(CLUSTERS):
        yield from _of_cluster(columns, problem, cluster)


def _fastest(columns: Columns, problem: Problem, cluster: int) -> Found | None:
    return min(_of_cluster(columns, problem, cluster), key=lambda way: way[0], default=None)


def _of_cluster(columns: Columns, problem: Problem, cluster: int) -> Iterator[Found]:
    work = columns.work(problem, cluster)
    vector = widest = columns.run.vector(problem)
    while vector:
        ways = [
            (number + late, late, choice.again, size, aside, choice.passing)
            for number, choice in enumerate(columns.residents)
            for size in [choice.bytes_per_element(vector)]
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
                halved = math.log2(widest / shape.vector)
                time = time_us(work, shape, blocks) * (1 + NARROW_LOSS * halved)
                merit = (time, rank, -vector, covered, shape.threads)
                kept = replace(shape, blocks_per_sm=blocks, reload_weights=late, again=again)
                yield merit, kept
        vector //= 2
