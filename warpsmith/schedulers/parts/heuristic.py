"""Choice of threads, passes and rows of a block where rows of parts stay in registers."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

from warpsmith.ir.domains import IterDomain
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.inner_grid import heuristic as inner_grid
from warpsmith.schedulers.layout import InnerRun, fastest, find_inner_run
from warpsmith.schedulers.multiprocessor import CLUSTERS
from warpsmith.schedulers.outer_persistent.heuristic import CLUSTER_GAIN, MOST_GUARDED, NARROW_LOSS
from warpsmith.schedulers.outer_persistent.shapes import AGAIN_REGISTERS, COPY_SHARE, blocks_per_sm
from warpsmith.schedulers.parts.levels import Levels, in_memory, levels_of
from warpsmith.schedulers.parts.shapes import (
    PartsParams,
    Work,
    registers,
    shapes,
    time_us,
    whole_us,
)
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.applicability import pattern
from warpsmith.schedulers.rows.across import unfit_across
from warpsmith.schedulers.rows.resident import Choice
from warpsmith.schedulers.rows.rows import Rows
from warpsmith.schedulers.rows.strategy import in_waves_us
from warpsmith.values import dataclass

WIDE_ACCESS, MOST_PIECE = 8, 200
"""Bytes of an access from which on rows of which no parts are summed are faster as rows in pieces
(`schedulers/rows`), unless pieces that tell parts apart have no more bytes than that: one H100,
2026-11-26, 24 norms of 7x7 to 28x28 pixels."""

RAGGED = 1.5
"""Times as long where each pass along the slower level has a branch for what is left of the faster.
An estimate, from the order of loads in machine code."""

MOST_REGISTERS = 200
"""Registers that a thread may need by the count of `shapes`."""


LARGEST_LOSS = 1.17
"""Of several inputs, what rows in the largest clusters take more than is predicted, if blocks that
keep images take that: 1.23 of the predicted times of twelve gradients of group norms, and 1.05 of
32 (geometric means; one H200, 2026-11-26)."""


@dataclass(frozen=True)
class Parts(Rows):
    """The rows of a fusion with caches, and their parts."""

    @cached_property
    def as_they_lie(self) -> Rows:
        """The same rows for schedulers that know of no parts."""
        return Rows(self.fusion, self.domains, self.caches)

    @cached_property
    def levels(self) -> Levels:
        reads = (_as_it_lies(cached) for cached in self.caches if cached.load)
        levels, reason = levels_of(self.fusion, self.domains, reads)
        assert levels is not None, reason
        return levels

    @cached_property
    def axes(self) -> tuple[IterDomain, ...]:
        """The dimensions in memory order, as the largest input has them, reshaped or not."""
        axes = (axis for axis in self.sums[0].logical if not axis.is_broadcast)
        place = {self.domains.group(axis): axis for axis in axes}
        wanted = frozenset(place)
        for cached in sorted((c for c in self.caches if c.load), key=lambda c: -c.memory.rank):
            order = in_memory(self.domains, _as_it_lies(cached), wanted)
            if set(order) == wanted:
                return tuple(place[group] for group in order)
        return super().axes

    def of(self, groups: frozenset[int]) -> tuple[IterDomain, ...]:
        """The dimensions of a level, in memory order."""
        return tuple(axis for axis in self.axes if self.domains.group(axis) in groups)

    @cached_property
    def parts_inside(self) -> bool:
        """Whether the fastest dimension tells parts apart."""
        return self.domains.group(self.axes[-1]) in self.levels.parts

    @property
    def outer(self) -> tuple[IterDomain, ...]:
        """The slower of the two levels of a row."""
        return self.of(self.levels.inside if self.parts_inside else self.levels.parts)

    @property
    def inner(self) -> tuple[IterDomain, ...]:
        """The faster."""
        return self.of(self.levels.parts if self.parts_inside else self.levels.inside)

    @cached_property
    def run(self) -> InnerRun:
        """The fastest of the faster, which a vector may walk: also where parts are told apart by a
        dimension that was split for it.
        """
        found = find_inner_run(self.domains, self.inner, self.caches)
        split = tuple(c for c in self.caches if c not in found.walkers and self.splits(c))
        return replace(found, walkers=(*found.walkers, *split))

    def splits(self, cached: Cached) -> bool:
        """Whether a tensor's fastest dimension is one whose parts are all of the faster level."""
        if len(self.inner) > 1 or fastest(self.domains, cached) is None:
            return False
        last = self.domains.group(self.inner[0])
        wanted = self.levels.kept | self.levels.parts
        return in_memory(self.domains, _as_it_lies(cached), wanted)[-1] == last

    @property
    def unordered(self) -> str:
        """Why threads cannot walk a row as it lies; empty where they can."""
        level = {
            g: n for n, axes in enumerate((self.outer, self.inner)) for g in self._groups(axes)
        }
        order = [level.get(self.domains.group(axis)) for axis in self.axes]
        if self.run.start or not self.run.axes:
            return "the fastest of what it reduces does not lie in one piece"
        last = len(order) - len(self.inner)
        one = order[last:] == [1] * len(self.inner)
        found = [place for place, each in enumerate(order) if each == 0]
        if not one or found != list(range(found[0], found[-1] + 1)):
            return "parts of its rows lie in pieces"
        return ""

    def work(self, problem: Problem, cluster: int = 1) -> Work:
        """The sizes of a call, whose rows are those of clusters of so many blocks."""
        outer, inner = (
            math.prod(problem.size(axis.extent) for axis in axes)
            for axes in (self.outer, self.inner)
        )
        kept = self.of(self.levels.kept)
        behind = self.axes[self.axes.index(self.outer[-1]) :] if self.parts_inside else ()
        beside = math.prod(problem.size(axis.extent) for axis in kept if axis in behind)
        return Work(
            rows=math.prod(problem.size(axis.extent) for axis in kept),
            outer=outer,
            inner=inner,
            beside=beside,
            loaded=self.loaded,
            stored=self.stored,
            widest=max((c.memory.dtype.size for c in self.full), default=4),
            inputs=len(self.loads),
            sums=len(self.sums),
            apart=any(self.levels.parts <= pattern(self.domains, t)[0] for t in self.sums),
            sms=cluster * problem.target.teams(cluster),
            bytes_per_us=COPY_SHARE * problem.target.rates.memory,
            issues_per_us=problem.target.sm_issues,
        )

    @property
    def ways(self) -> tuple[Choice, ...]:
        """The ways to keep elements. What is one for all rows, or for a part, is counted apart."""
        late = tuple(choice for choice in self.residents if choice.reload_weights)
        return late or self.residents

    @cached_property
    def aside(self) -> int:
        """Bytes of inputs of parts, for each of them."""
        full = {cached.register for cached in self.full}
        levels = self.levels
        wanted = levels.kept | levels.parts | levels.inside
        beside = (c for c in self.caches if c.load and c.register not in full)
        return sum(
            c.memory.dtype.size
            for c in beside
            if not levels.parts.isdisjoint(in_memory(self.domains, _as_it_lies(c), wanted))
        )


def _as_it_lies(cached: Cached) -> list[IterDomain]:
    """The dimensions of a copy in the memory order of what is copied."""
    return [cached.copy.shape_axes[d] for d in cached.memory.memory_order()]


def unsupported_sizes(parts: Parts, problem: Problem, *, grid: bool = False) -> str:
    """Why the rows of a call cannot stay in registers; empty where they can.

    Args:
        grid: the blocks of a grid may keep them, too.
    """
    if reason := parts.unordered:
        return reason
    work = parts.work(problem)
    if work.length == 0 or work.rows == 0:
        return "its rows are empty"
    best = _best(parts, problem)
    if reason := _rather_as_rows(parts, work, best, problem, grid=grid):
        return reason
    if best is None:
        most = problem.target.runs(CLUSTERS)[-1]
        return f"rows of {work.length} elements do not fit in the registers of {most} blocks"
    return ""


def _rather_as_rows(
    parts: Parts, work: Work, best: Found | None, problem: Problem, *, grid: bool
) -> str:
    """Why threads had better walk rows as they lie; empty where they had not."""
    if work.apart or any(map(parts.splits, parts.loads)):
        return ""
    access = parts.run.vector(problem) * work.widest
    rows = parts.as_they_lie
    if access < WIDE_ACCESS and rows.in_pieces and not unfit_across(rows, problem):
        shared = inner_grid.predicted_us(rows, problem) if grid else math.inf
        others = min(in_waves_us(rows, problem), shared)
        if best is None or others < whole_us(parts.work(problem, best[1].cluster), best[1]):
            return f"{others:.3g} µs are predicted for rows in pieces"
    if access < WIDE_ACCESS or (parts.parts_inside and work.inner * work.widest <= MOST_PIECE):
        return ""
    return f"rows in pieces are as fast by accesses of {access} bytes"


def predicted_us(parts: Parts, problem: Problem) -> float:
    """Microseconds of the shape that is chosen, as they are held against blocks that keep images;
    infinite where there is none.
    """
    best = _best(parts, problem)
    if best is None:
        return math.inf
    cluster = best[1].cluster
    slow = LARGEST_LOSS if cluster == CLUSTERS[-1] and len(parts.loads) > 1 else 1.0
    return slow * whole_us(parts.work(problem, cluster), best[1])


def choose(parts: Parts, problem: Problem) -> PartsParams:
    """The shape that takes the least time, as `time_us` sees it."""
    best = _best(parts, problem)
    assert best is not None, "sizes are supported where this is asked"
    _, params = best
    names, inputs = parts.run.vectorized(problem, params.vector), len(parts.loads)
    many = inputs > 1 or params.passes * params.unroll > MOST_GUARDED
    return replace(params, vectorized=names, masked=many)


Found = tuple[tuple[float, ...], PartsParams]
"""A shape with a way to keep rows, behind its merit: the smaller, its time first, the better."""


def _best(parts: Parts, problem: Problem) -> Found | None:
    """The fastest shape of one block, or of more where they gain enough by it; any gain is enough
    where a cluster has wider pieces.
    """
    best: Found | None = None
    gain = 1.0 if parts.parts_inside and not parts.work(problem).apart else CLUSTER_GAIN
    for cluster in problem.target.runs(CLUSTERS):
        found = _fastest(parts, problem, cluster)
        if found is not None and (best is None or found[0][0] < gain * best[0][0]):
            best = found
    return best


def _fastest(parts: Parts, problem: Problem, cluster: int) -> Found | None:
    best: Found | None = None
    vector = parts.run.vector(problem)
    while vector:
        found = _of_width(parts, problem, cluster, vector)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
        vector //= 2
    return best


def _of_width(parts: Parts, problem: Problem, cluster: int, vector: int) -> Found | None:
    work, limits = parts.work(problem, cluster), problem.target.family.limits
    narrow = 1 + NARROW_LOSS * math.log2(parts.run.vector(problem) / vector)
    best: Found | None = None
    ways = [
        (choice.again, late, choice.bytes_per_element(vector), parts.aside / (2 if late else 1))
        for choice in parts.ways
        for late in ((False, True) if parts.aside and not parts.parts_inside else (False,))
    ]
    for shape in shapes(work, vector, cluster, parts_inside=parts.parts_inside):
        for rank, (again, late, size, beside) in enumerate(ways):
            more = AGAIN_REGISTERS if again else 0
            needed = registers(work, shape, size, beside, again=more)
            blocks = blocks_per_sm(needed, shape.threads, limits)
            if needed > MOST_REGISTERS or not blocks:
                continue
            apart = not shape.exact and shape.unroll > 1 and shape.passes > 1
            ragged = RAGGED if apart else 1.0
            time = time_us(work, shape, blocks) * narrow * ragged
            covered = shape.cluster * shape.block_z * shape.passes * shape.block_x * shape.unroll
            merit = (time, rank, -vector, covered * vector, -shape.block_x, shape.threads)
            if best is None or merit < best[0]:
                best = (
                    merit,
                    replace(shape, blocks_per_sm=blocks, reload_weights=late, again=again),
                )
    return best
