"""Choice of blocks, and of what they keep, where the blocks of a grid keep rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from warpsmith.ir.exprs import Reduction, takes_moments
from warpsmith.ir.tensor import TensorView
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.inner_grid.shapes import InnerGridParams, Work, grid_of, shapes, time_us
from warpsmith.schedulers.outer_grid.shapes import GAIN
from warpsmith.schedulers.outer_persistent.shapes import APART_SHARE, APART_US, COPY_SHARE
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows.across import unfit_across, vector_across, vectorized_across
from warpsmith.schedulers.rows.applicability import stages
from warpsmith.schedulers.rows.once import is_narrow
from warpsmith.schedulers.rows.rows import Rows
from warpsmith.schedulers.rows.strategy import in_waves_us
from warpsmith.values import dataclass

STATE_BYTES = 4
"""Of a number that moments have beside a sum."""

CLEAR_GAIN = 0.92
"""Blocks have turns where that makes the predicted time of rows in registers shorter than this
share: the best of seven for 25 batch norms of one H200 and one H100 (2026-11-26)."""

Found = tuple[float, InnerGridParams]
"""A shape behind its time."""


@dataclass(frozen=True)
class Shared(Rows):
    """The rows of a fusion whose inputs are loaded before blocks meet, and again behind it."""

    @cached_property
    def loads(self) -> tuple[Cached, ...]:
        """The inputs that have an element for each one of the rows, once each."""
        found: dict[TensorView, Cached] = {}
        for cached in super().loads:
            found.setdefault(cached.memory, cached)
        return tuple(found.values())

    @cached_property
    def states(self) -> int:
        """Bytes of what is reduced of each row."""
        return sum(output.dtype.size for op in self._reductions for output in op.outputs)

    @cached_property
    def moments(self) -> bool:
        """Whether means and variances are among it."""
        return any(map(takes_moments, self._reductions))

    @property
    def _reductions(self) -> tuple[Reduction, ...]:
        return tuple(op for op in self.fusion.operations if isinstance(op, Reduction))


def unsupported_sizes(rows: Shared, problem: Problem) -> str:
    """Why blocks cannot keep the rows of a call; empty where they can. Of two kernels, the one that
    reduces has no vectors across the ends of pieces, and is slow where others are narrow.
    """
    if not rows.in_pieces or not rows.run.axes or not rows.kept:
        return "no input has its rows in pieces"
    if rows.length(problem) == 0 or rows.count(problem) == 0:
        return "its rows are empty"
    work = _work(rows, rows.states, problem, moments=rows.moments)
    best = _best(rows, work, problem)
    if best is None:
        return f"{work.rows} rows are more than blocks that run at once, and no cluster keeps one"
    if is_narrow(rows.run.vector(problem), rows.sizes):
        return ""
    moved = work.rows * work.length * (2 * work.loaded + work.stored)
    apart = APART_US + moved / (APART_SHARE * COPY_SHARE * problem.target.rates.memory)
    return "two kernels are faster" if best[0] > GAIN * apart else ""


def choose(rows: Shared, problem: Problem) -> InnerGridParams:
    """The shape that takes the least time, as `time_us` sees it."""
    best = _best(rows, _work(rows, rows.states, problem, moments=rows.moments), problem)
    assert best is not None, "sizes are supported where this is asked"
    params = best[1]
    if params.across:
        return replace(params, vectorized=vectorized_across(rows, problem))
    return replace(params, vectorized=rows.run.vectorized(problem, params.vector))


def splits(rows: Shared, params: InnerGridParams, problem: Problem) -> int:
    """Blocks that share a row."""
    work = _work(rows, rows.states, problem, moments=rows.moments)
    return grid_of(work, params, problem.target).splits


def predicted_us(rows: Rows, problem: Problem) -> float:
    """Microseconds that the best shape takes for rows which another scheduler may have, too;
    infinite where there is none, or nothing to keep. That one sums squares in a second pass; blocks
    of a grid have moments in its place, as they meet once.
    """
    if not (rows.loads and rows.length(problem) and rows.count(problem)):
        return math.inf
    depth = max(stages(rows.fusion).values(), default=0)
    states = sum(tensor.dtype.size for tensor in rows.sums) + STATE_BYTES * (depth - 1)
    best = _best(rows, _work(rows, states, problem, moments=depth > 1), problem)
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


def _work(rows: Rows, states: int, problem: Problem, *, moments: bool) -> Work:
    """The sizes of a call."""
    piece = problem.size(rows.run.extent)
    return Work(
        rows=rows.count(problem),
        pieces=rows.length(problem) // piece,
        piece=piece,
        inputs=len(rows.loads),
        loaded=rows.loaded,
        stored=rows.stored,
        states=states,
        moments=moments,
    )


def _best(rows: Rows, work: Work, problem: Problem) -> Found | None:
    """The fastest shape, and its time."""
    target = problem.target
    known = ((time_us(work, shape, target), shape) for shape in _ways(rows, work, problem))
    return min(known, key=lambda each: each[0], default=None)


def _ways(rows: Rows, work: Work, problem: Problem) -> Iterator[InnerGridParams]:
    """By vectors that divide pieces, and by wider ones that go across their ends."""
    vector = rows.run.vector(problem)
    yield from shapes(work, vector, problem.target, across=False)
    widest = vector_across(rows, problem)
    if vector < widest and not unfit_across(rows, problem):
        yield from shapes(work, widest, problem.target, across=True)
