"""Choice of blocks, and of what they keep, where images stay whose channels are summed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property

from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.exprs import Reduction
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import map_of
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import rfactor
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.kept import STATE_BYTES, Met
from warpsmith.schedulers.layout import InnerRun
from warpsmith.schedulers.outer_grid.shapes import GAIN
from warpsmith.schedulers.outer_groups.shapes import (
    Found,
    OuterGroupsParams,
    Work,
    best,
    grid_of,
    timed,
)
from warpsmith.schedulers.parts.heuristic import predicted_us
from warpsmith.schedulers.parts.levels import Levels, in_memory
from warpsmith.schedulers.parts.parts import Parts
from warpsmith.schedulers.problem import Problem, widest_vector
from warpsmith.schedulers.reduction.applicability import pattern, reductions
from warpsmith.schedulers.rows.applicability import stages
from warpsmith.values import dataclass


@dataclass(frozen=True)
class Groups(Met):
    """The images of a fusion whose channels are reduced before groups of them are."""

    @cached_property
    def parts(self) -> Parts:
        """The same as rows of parts: a group is a row, and its channels are the parts."""
        return Parts(self.fusion, self.domains, self.caches)

    @property
    def levels(self) -> Levels:
        return self.parts.levels

    @cached_property
    def sums(self) -> tuple[TensorView, ...]:
        """The reductions of channels."""
        inside = self.levels.inside
        return tuple(t for t in reductions(self.fusion) if pattern(self.domains, t)[1] == inside)

    @cached_property
    def axes(self) -> tuple[IterDomain, ...]:
        place = {self.domains.group(axis): axis for axis in self.sums[0].logical}
        return tuple(place[self.domains.group(axis)] for axis in self.parts.axes)

    @cached_property
    def run(self) -> InnerRun:
        """All channels of an image: vectors go across the ends of groups."""
        start = len(self.axes) - 2
        extent = integers.mul(*(self.domains.extent_of(axis) for axis in self.axes[start:]))
        walkers = tuple(filter(self._has_all, self.parts.run.walkers))
        return InnerRun(self.axes, start, walkers, extent, extent)

    def _has_all(self, cached: Cached) -> bool:
        """Whether groups lie side by side in a tensor, without others between."""
        wanted = [self.domains.group(axis) for axis in self.axes]
        lies = [cached.copy.shape_axes[d] for d in cached.memory.memory_order()]
        order = in_memory(self.domains, lies, frozenset(wanted))
        return order[-2:] == wanted[-2:] and False not in cached.memory.contiguity

    @property
    def reduced(self) -> tuple[Reduction, ...]:
        sums = (t.definition for t in self.sums)
        return tuple(op for op in sums if isinstance(op, Reduction))

    def images(self, problem: Problem) -> Work:
        """The sizes of a call."""
        *kept, groups, channels = (
            problem.size(axis.extent) for axis in self.axes if not axis.is_reduction
        )
        return Work(
            images=math.prod(kept),
            area=self.length(problem),
            channels=groups * channels,
            groups=groups,
            inputs=len(self.loads),
            **self.bytes,
        )

    def unfit(self, problem: Problem) -> str:
        work = self.images(problem)
        if work.moved == 0:
            return "its images are empty"
        if self.best(problem) is None:
            return (
                f"no blocks that run at once have {work.channels} channels of {work.images} images"
            )
        return ""

    def shapes(self, problem: Problem) -> Iterator[Found]:
        return timed(self.images(problem), self.run.vector(problem), problem.target)

    def at_once(self, params: OuterGroupsParams, problem: Problem) -> tuple[int, int]:
        grid = grid_of(self.images(problem), params, problem.target)
        return grid.images, grid.splits

    def loaded_by(self, params: OuterGroupsParams, problem: Problem) -> int:
        work = self.images(problem)
        return work.area * work.channels * work.loaded


def channels_first(fusion: Fusion, caches: tuple[Cached, ...]) -> None:
    """Have what reduces whole groups reduce channels before, in place."""
    domains = map_of(fusion)
    levels = Parts(fusion, domains, caches).levels
    loops = {
        tensor: [place for place, axis in enumerate(tensor.loop) if axis.is_reduction]
        for tensor in reductions(fusion)
        if pattern(domains, tensor)[1] > levels.parts
    }
    inside = {
        tensor: [place for place in places if domains.group(tensor.loop[place]) in levels.inside]
        for tensor, places in loops.items()
    }
    for tensor, places in inside.items():
        rfactor(tensor, places)


def faster(rows: Parts, problem: Problem) -> str:
    """Why blocks had better keep images than rows of parts, which one of another scheduler may;
    empty where they had not. That one sums squares in a second pass, and has moments here.
    """
    work = rows.work(problem)
    if not rows.parts_inside or not work.length or not work.rows:
        return ""
    apart = [t for t in rows.sums if pattern(rows.domains, t)[1] == rows.levels.inside]
    moments = not apart and max(stages(rows.fusion).values()) > 1
    channels = work.beside * work.inner
    images = Work(
        images=work.rows // work.beside,
        area=work.outer,
        channels=channels,
        groups=work.beside,
        inputs=work.inputs,
        loaded=work.loaded,
        stored=work.stored,
        states=STATE_BYTES * (3 if moments else len(apart or rows.sums)),
        moments=moments,
    )
    vector = widest_vector([cached.memory.dtype for cached in rows.run.walkers])
    found = best(images, math.gcd(vector, channels), problem.target)
    if found is not None and found[0] < GAIN * predicted_us(rows, problem):
        return f"{found[0]:.3g} µs are predicted for blocks that keep images"
    return ""
