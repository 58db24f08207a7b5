"""How long kernels of rows with certain parameters are predicted to take."""

from __future__ import annotations

import math

from warpsmith.schedulers.rows.model import Shape, Work, predicted_us
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.targets.target import Target

ROW_CLASSES = ((4, 1.0), (24, 12.0), (124, 62.06), (math.inf, 248.24))
"""Rows of a multiprocessor up to which parameters are chosen for so many of them. Calls with other
row counts take the same kernels; few bytes become many at one more."""


def class_of(rows: int, target: Target) -> int:
    """The rows that stand for those of a call."""
    each = rows / target.sm_count
    return round(next(count for most, count in ROW_CLASSES if each <= most) * target.sm_count)


def predicted(work: Work, params: RowParams, target: Target) -> float:
    """Microseconds of a kernel with such parameters, and of what follows from it."""
    return predicted_us(work, shape_of(params), target)


def shape_of(params: RowParams) -> Shape:
    """Who does the work, where a schedule has such parameters."""
    return Shape(
        threads=params.block_x,
        vector=params.vector,
        unroll=params.unroll,
        side=params.block_y,
        kept=params.rows_per_thread,
        blocks_per_sm=params.blocks_per_sm,
        cluster=params.cluster,
        ring=params.ring,
        role=params.warp_specialize,
        apart=params.apart,
        reread=params.reread,
        reload_weights=params.reload_weights,
        shared=params.weights_in_shared,
        masked=not params.exact,
        by_threads=params.by_threads,
        chunks=params.chunks,
    )
