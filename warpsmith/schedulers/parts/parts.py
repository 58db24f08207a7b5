"""What a fusion says of its rows that are made of parts."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

from warpsmith.ir.domains import IterDomain
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.layout import InnerRun, fastest, find_inner_run
from warpsmith.schedulers.outer_persistent.shapes import COPY_SHARE
from warpsmith.schedulers.parts.levels import Levels, in_memory, levels_of
from warpsmith.schedulers.parts.shapes import Work
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.applicability import pattern
from warpsmith.schedulers.rows.resident import Choice
from warpsmith.schedulers.rows.rows import Rows
from warpsmith.values import dataclass


@dataclass(frozen=True)
class Parts(Rows):
    """The rows of a fusion with caches, and their parts."""

    @cached_property
    def as_they_lie(self) -> Rows:
        """The same rows for schedulers that know of no parts."""
        return Rows(self.fusion, self.domains, self.caches)

    @cached_property
    def levels(self) -> Levels:
        reads = (as_it_lies(cached) for cached in self.caches if cached.load)
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
            order = in_memory(self.domains, as_it_lies(cached), wanted)
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
        return in_memory(self.domains, as_it_lies(cached), wanted)[-1] == last

    @property
    def unordered(self) -> str:
        """Why threads cannot walk a row as it lies; empty where they can."""
        level = {
            g: n
            for n, axes in enumerate((self.outer, self.inner))
            for g in self.domains.groups(axes)
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
            if not levels.parts.isdisjoint(in_memory(self.domains, as_it_lies(c), wanted))
        )


def as_it_lies(cached: Cached) -> list[IterDomain]:
    """The dimensions of a copy in the memory order of what is copied."""
    return [cached.copy.shape_axes[d] for d in cached.memory.memory_order()]
