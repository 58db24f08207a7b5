"""Choice of blocks, and of what they keep, where the blocks of a grid keep columns."""

from __future__ import annotations

from collections.abc import Iterator

from warpsmith.schedulers.kept import Met
from warpsmith.schedulers.outer_grid.shapes import (
    GAIN,
    Found,
    OuterGridParams,
    Work,
    grid_of,
    timed,
)
from warpsmith.schedulers.outer_persistent.heuristic import Columns, shared_work
from warpsmith.schedulers.outer_persistent.shapes import time_apart_us
from warpsmith.schedulers.problem import Problem
from warpsmith.values import dataclass


@dataclass(frozen=True)
class Shared(Met, Columns):
    """The columns of a fusion whose inputs are loaded before blocks meet, and again behind it."""

    def shared_work(self, problem: Problem) -> Work:
        """The sizes of a call."""
        return shared_work(self, problem, self.bytes)

    def unfit(self, problem: Problem) -> str:
        if not self.run.axes:
            return "no dimension that it keeps lies fastest in memory"
        work = self.shared_work(problem)
        if work.length == 0 or work.width == 0:
            return "its columns are empty"
        found = self.best(problem)
        if found is None:
            return f"{work.width} columns are more than blocks that run at once share"
        slow = found[0] > GAIN * time_apart_us(self.work(problem))
        return "two kernels are faster" if slow else ""

    def shapes(self, problem: Problem) -> Iterator[Found]:
        return timed(self.shared_work(problem), self.run.vector(problem), problem.target)

    def at_once(self, params: OuterGridParams, problem: Problem) -> tuple[int, int]:
        grid = grid_of(self.shared_work(problem), params, problem.target)
        return grid.groups, grid.splits

    def loaded_by(self, params: OuterGridParams, problem: Problem) -> int:
        work = self.shared_work(problem)
        return work.length * params.block_x * params.vector * work.loaded
