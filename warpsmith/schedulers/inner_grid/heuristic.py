"""Choice of blocks, and of what they keep, where the blocks of a grid keep rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from warpsmith.schedulers.inner_grid.shapes import InnerGridParams, Work, grid_of, shapes, time_us
from warpsmith.schedulers.kept import Met, bytes_of_one_pass, fastest
from warpsmith.schedulers.outer_grid.shapes import GAIN
from warpsmith.schedulers.outer_persistent.shapes import APART_SHARE, APART_US, COPY_SHARE
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows.across import unfit_across, vector_across, vectorized_across
from warpsmith.schedulers.rows.once import is_narrow
from warpsmith.schedulers.rows.rows import Rows
from warpsmith.schedulers.rows.strategy import in_waves_us
from warpsmith.values import dataclass

CLEAR_GAIN = 0.92
"""Blocks have turns where that makes the predicted time of rows in registers shorter than this
share: the best of seven for 25 batch norms of one H200 and one H100 (2026-11-26)."""

Found = tuple[float, InnerGridParams]
"""A shape behind its time."""


@dataclass(frozen=True)
class Shared(Met):
    """The rows of a fusion whose inputs are loaded before blocks meet, and again behind it."""

    def unfit(self, problem: Problem) -> str:
        """Of two kernels, the one that reduces has no vectors across the ends of pieces, and is
        slow where others are narrow.
        """
        if not self.in_pieces or not self.run.axes or not self.kept:
            return "no input has its rows in pieces"
        if self.length(problem) == 0 or self.count(problem) == 0:
            return "its rows are empty"
        work = self.shared_work(problem)
        best = self.best(problem)
        if best is None:
            return (
                f"{work.rows} rows are more than blocks that run at once, and no cluster keeps one"
            )
        if is_narrow(self.run.vector(problem), self.sizes):
            return ""
        moved = work.rows * work.length * (2 * work.loaded + work.stored)
        apart = APART_US + moved / (APART_SHARE * COPY_SHARE * problem.target.rates.memory)
        return "two kernels are faster" if best[0] > GAIN * apart else ""

    def shapes(self, problem: Problem) -> Iterator[Found]:
        return _timed(self, self.shared_work(problem), problem)

    def at_once(self, params: InnerGridParams, problem: Problem) -> tuple[int, int]:
        grid = grid_of(self.shared_work(problem), params, problem.target)
        return grid.rows, grid.splits

    def vectorized(self, params: InnerGridParams, problem: Problem) -> tuple[str, ...]:
        across = vectorized_across(self, problem) if params.across else None
        return super().vectorized(params, problem) if across is None else across

    def shared_work(self, problem: Problem) -> Work:
        """The sizes of a call."""
        return _work(self, problem, self.bytes)


def predicted_us(rows: Rows, problem: Problem) -> float:
    """Microseconds that the best shape takes for rows which another scheduler may have, too;
    infinite where there is none, or nothing to keep.
    """
    if not (rows.loads and rows.length(problem) and rows.count(problem)):
        return math.inf
    best = fastest(_timed(rows, _work(rows, problem, bytes_of_one_pass(rows)), problem))
    return math.inf if best is None else best[0]


def faster(rows: Rows, problem: Problem) -> str:
    """Why blocks of a grid, or of a cluster, had better keep rows in turns that may stay in
    registers, too; empty where they had not.
    """
    return (
        "blocks that keep turns are faster"
        if predicted_us(rows, problem) < CLEAR_GAIN * in_waves_us(rows, problem)
        else ""
    )


def _work(rows: Rows, problem: Problem, held: dict[str, Any]) -> Work:
    """The sizes of a call, and the bytes of what blocks have of it."""
    piece = problem.size(rows.run.extent)
    pieces, inputs = rows.length(problem) // piece, len(rows.loads)
    return Work(rows=rows.count(problem), pieces=pieces, piece=piece, inputs=inputs, **held)


def _timed(rows: Rows, work: Work, problem: Problem) -> Iterator[Found]:
    """All shapes behind their times."""
    target = problem.target
    return ((time_us(work, shape, target), shape) for shape in _ways(rows, work, problem))


def _ways(rows: Rows, work: Work, problem: Problem) -> Iterator[InnerGridParams]:
    """By vectors that divide pieces, and by wider ones that go across their ends."""
    vector = rows.run.vector(problem)
    yield from shapes(work, vector, problem.target, across=False)
    widest = vector_across(rows, problem)
    if vector < widest and not unfit_across(rows, problem):
        yield from shapes(work, widest, problem.target, across=True)
