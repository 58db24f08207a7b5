"""Choice of blocks, and of what they keep, where the blocks of a grid keep columns."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from warpsmith.ir.exprs import Reduction, takes_moments
from warpsmith.ir.tensor import TensorView
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.outer_grid.shapes import (
    GAIN,
    OuterGridParams,
    Work,
    fastest,
    grid_of,
)
from warpsmith.schedulers.outer_persistent.heuristic import Columns, shared_work
from warpsmith.schedulers.outer_persistent.shapes import time_apart_us
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows.resident import full_size
from warpsmith.values import dataclass


@dataclass(frozen=True)
class Shared(Columns):
    """The columns of a fusion whose inputs are loaded before blocks meet, and again behind it."""

    @cached_property
    def full(self) -> tuple[Cached, ...]:
        """The copies that have an element for each one of the columns, those of inputs once."""
        whole = full_size(self.alone, self.domains, self.caches)
        found: dict[TensorView, Cached] = {}
        for cached in self.caches:
            if cached.register in whole:
                found.setdefault(cached.memory, cached)
        return tuple(found.values())

    def shared_work(self, problem: Problem) -> Work:
        """The sizes of a call."""
        reduced = [op for op in self.fusion.operations if isinstance(op, Reduction)]
        states = sum(output.dtype.size for op in reduced for output in op.outputs)
        return shared_work(self, states, problem, moments=any(map(takes_moments, reduced)))


def unsupported_sizes(columns: Shared, problem: Problem) -> str:
    """Why blocks cannot keep the columns of a call; empty where they can."""
    if not columns.run.axes:
        return "no dimension that it keeps lies fastest in memory"
    work = columns.shared_work(problem)
    if work.length == 0 or work.width == 0:
        return "its columns are empty"
    found = _best(columns, problem)
    if found is None:
        return f"{work.width} columns are more than blocks that run at once share"
    us, _ = found
    if us > GAIN * time_apart_us(columns.work(problem)):
        return "two kernels are faster"
    return ""


def choose(columns: Shared, problem: Problem) -> OuterGridParams:
    """The shape that takes the least time, as `time_us` sees it."""
    best = _best(columns, problem)
    assert best is not None, "sizes are supported where this is asked"
    params = best[1]
    return replace(params, vectorized=columns.run.vectorized(problem, params.vector))


def splits(columns: Shared, params: OuterGridParams, problem: Problem) -> int:
    """Blocks that share columns."""
    return grid_of(columns.shared_work(problem), params, problem.target).splits


def _best(columns: Shared, problem: Problem) -> tuple[float, OuterGridParams] | None:
    """The fastest shape, and its time."""
    return fastest(columns.shared_work(problem), columns.run.vector(problem), problem.target)
