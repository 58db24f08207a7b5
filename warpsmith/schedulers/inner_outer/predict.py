"""How long a call's rows beside sums of columns take: what the model says, and what timings add."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import lru_cache

from warpsmith.schedulers.caching import past_l1
from warpsmith.schedulers.inner_outer.model import Shape, Work, predicted_us
from warpsmith.schedulers.inner_outer.rows import InnerOuterParams, Rows, length_of, row_count
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.timed import Timing, correction, nearest, ratios, timings
from warpsmith.targets.target import Target

ROW_CLASSES = ((4, 1.0), (24, 12.0), (124, 62.06), (math.inf, 248.24))
"""Rows of a multiprocessor up to which parameters are chosen for so many of them. Calls with other
row counts take the same kernels, of which there are five: few bytes become many at one of them.
The last two are 8192 and 32768 rows of an H200, as most timings have."""

CHUNKS_LOSS = {2: 0.18, 4: 0.08, 8: 0.1}
ROLE_LOSS = 0.06
COPIED_LOSS, COPIED_PAIRS_LOSS = 0.03, 0.3
"""More of the time where rows come in whole chunks, by the bytes of a thread's accesses, and more
yet if a role loads them; and where threads copy them to the ring, in general and two elements at a
time for several sums of a row: medians of rows of 1025 to 16381 elements
(docs/lessons/row_lengths.md)."""

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
    work = next((replace(work, rows=timing.work.rows) for timing in timed_near(work, target)), work)

    def predict(params: InnerOuterParams) -> float:
        shape = shape_of(params)
        loss = 0.0 if shape in found else _loss(rows, params)
        return predicted_us(work, shape, target) * correction(found, shape) * (1 + loss)

    return predict


def _loss(rows: Rows, params: InnerOuterParams) -> float:
    """Of the time of both kernels, what narrow accesses add that the model knows nothing of."""
    if params.by_threads:
        return COPIED_PAIRS_LOSS if params.vector == 2 and rows.averaged > 1 else COPIED_LOSS
    if not params.chunks:
        return 0.0
    narrowest = min(cached.memory.dtype.size for cached in rows.full)
    role = ROLE_LOSS if params.warp_specialize else 0.0
    return CHUNKS_LOSS.get(max(2, params.vector * narrowest), 0.0) + role


def timed_shapes(rows: Rows, problem: Problem) -> Collection[Shape]:
    """Those that were timed at such rows as a call's."""
    return learned(work_of(rows, problem), problem.target)


@lru_cache(maxsize=_WORKS_KEPT)
def learned(work: Work, target: Target) -> Mapping[Shape, float]:
    """What was measured over what is predicted, for shapes that were timed at such work."""
    return ratios(timed_near(work, target), lambda work, shape: predicted_us(work, shape, target))


@lru_cache(maxsize=_WORKS_KEPT)
def timed_near(work: Work, target: Target) -> tuple[Timing[Work, Shape], ...]:
    """Timings of such work with about so many rows."""
    found = timings(__package__, Work, Shape, target, (work,))
    return nearest(found, (work,), near_rows=NEAR_ROWS)


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
        evict_last=not past_l1(rows.full, problem),
    )


def shape_of(params: InnerOuterParams) -> Shape:
    """Of the kernel that the parameters make."""
    return Shape(
        threads=params.block_x,
        elements=params.unroll * params.vector,
        side=params.block_y,
        kept=params.rows_per_thread,
        stages=params.ring,
        blocks_per_sm=params.blocks_per_sm,
        cluster=params.cluster,
        role=params.warp_specialize,
        apart=params.apart,
        reread=params.reread,
        chunks=params.chunks,
    )
