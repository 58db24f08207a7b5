"""How long a call's rows beside sums of columns take: what the model says, and what timings add."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import lru_cache

from warpsmith.schedulers.caching import past_l1
from warpsmith.schedulers.inner_outer.model import Shape, Work, predicted_us
from warpsmith.schedulers.inner_outer.rows import InnerOuterParams, Rows, length_of, row_count
from warpsmith.schedulers.problem import Problem, Target
from warpsmith.schedulers.timed import Timing, correction, nearest, ratios, timings

ROW_CLASSES = ((4, 1.0), (24, 12.0), (124, 62.06), (math.inf, 248.24))
"""Rows of a multiprocessor up to which parameters are chosen for so many of them. Calls with other
row counts take the same kernels, of which there are five: few bytes become many at one of them.
The last two are 8192 and 32768 rows of an H200, as most timings have."""

NEAR_ROWS = 8.0
"""Timings of so many times the rows, or fewer, say something of others."""

_WORKS_KEPT = 64


def predictor(rows: Rows, problem: Problem) -> Callable[[InnerOuterParams], float]:
    """From parameters to microseconds of both kernels, with as many rows as the class of the call's
    count has; where shapes were timed with about so many, with as many as these had, so that
    what was measured to be faster is taken for it.
    """
    work, target = work_of(rows, problem), problem.target
    found = learned(work, target)
    work = next((replace(work, rows=timing.work.rows) for timing in timed_near(work)), work)

    def predict(params: InnerOuterParams) -> float:
        shape = shape_of(params)
        return predicted_us(work, shape, target) * correction(found, shape)

    return predict


def timed_shapes(rows: Rows, problem: Problem) -> Collection[Shape]:
    """Those that were timed at such rows as a call's."""
    return learned(work_of(rows, problem), problem.target)


@lru_cache(maxsize=_WORKS_KEPT)
def learned(work: Work, target: Target) -> Mapping[Shape, float]:
    """What was measured over what is predicted, for shapes that were timed at such work."""
    return ratios(timed_near(work), lambda work, shape: predicted_us(work, shape, target))


@lru_cache(maxsize=_WORKS_KEPT)
def timed_near(work: Work) -> tuple[Timing[Work, Shape], ...]:
    """Timings of such work with about so many rows."""
    return nearest(timings(__package__, Work, Shape, work.length), (work,), near_rows=NEAR_ROWS)


def work_of(rows: Rows, problem: Problem) -> Work:
    """Of a call, with as many rows as the class of its count has."""
    sm_count = problem.target.sm_count
    each = row_count(rows, problem) / sm_count
    count = next(count for most, count in ROW_CLASSES if each <= most)
    return Work(
        rows=round(count * sm_count),
        length=length_of(rows, problem),
        loaded=rows.loaded,
        stored=rows.stored,
        summed=rows.summed,
        averaged=rows.averaged,
        operations=rows.operations,
        lasting=not past_l1(rows.full, problem),
    )


def shape_of(params: InnerOuterParams) -> Shape:
    """Of the kernel that the parameters make."""
    return Shape(
        threads=params.block_x,
        elements=params.unroll * params.vector,
        side=params.block_y,
        kept=params.kept_unroll,
        slots=params.ring,
        blocks_per_sm=params.blocks_per_sm,
        cluster=params.cluster,
        role=params.warp_specialize,
        apart=params.apart,
        reread=params.reread,
    )
