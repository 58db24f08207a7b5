"""How long kernels of few rows take: those whose blocks are all there at once, or nearly.

Little hides what one block does: it loads, computes and stores, one after the other, and its time
is the sum of what these take. The constants were fitted together to 2,000 timings of shapes at 204
sizes of up to six rows of each multiprocessor (H200, 2026-11-27; docs/lessons/rows_again.md).
"""

from __future__ import annotations

import math

from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.rows.work import MANY_THREADS, VECTOR_BYTES, Work, doublings
from warpsmith.targets.family import WARP
from warpsmith.targets.target import Target

MOST = 5
"""Rows of a multiprocessor up to which they are few."""

FEW_START_US = 4.55
"""Launch, the first access and the end: what no size changes."""

FEW_MEMORY_SHARE, FEW_LOAD_SHARE = 1.1, 1.05
"""Of the memory's rate, and of what one multiprocessor loads while few do, at which rows move: the
slower of both counts."""

FEW_OPERATION_US = 0.0027
"""An operation on an element of a thread."""

FEW_CLUSTER_US = 0.09
"""A reduction across a cluster, for each doubling of its blocks."""

FEW_SUM_INSTRUCTIONS = 37.0
"""Of a warp, for each sum of a row."""

FEW_ROUND_US = 0.47
"""Until a block begins where another one has ended."""

FEW_RELOAD_US = 0.126
"""Until what all rows share is there, where it is loaded where it is used: of each access of a
thread, or of all together."""

FEW_WIDE_LOSS, FEW_NARROW_LOSS = 0.15, 0.21
"""More of the time: for each doubling of a row's MANY_THREADS; and for each halving of VECTOR_BYTES
of an access."""


def has_few(work: Work, target: Target) -> bool:
    """Whether there are few rows, which lie in one piece, and no sums of their columns."""
    return not (work.summed or work.in_pieces) and work.rows <= MOST * target.sm_count


def few_us(work: Work, params: RowParams, target: Target) -> float:
    """Microseconds from the launch to the end, where threads load rows themselves."""
    blocks = math.ceil(work.rows / params.at_once) * params.cluster
    held = min(float(params.blocks_per_sm), max(1.0, blocks / target.sm_count))
    rounds = max(1.0, blocks / (params.blocks_per_sm * target.sm_count))
    each = work.length * (work.loaded + work.stored)
    moved = max(
        work.rows * each / (FEW_MEMORY_SHARE * target.rates.memory),
        held * params.at_once * each / params.cluster / (FEW_LOAD_SHARE * target.rates.sm_load),
    )
    computed = FEW_OPERATION_US * params.row_elements * work.operations
    met = FEW_CLUSTER_US * (work.stages - 1) * doublings(params.cluster)
    warps = held * params.block_y * params.block_x / WARP
    issued = warps * FEW_SUM_INSTRUCTIONS * work.sums * params.rows_per_thread / target.sm_issues
    loss = FEW_WIDE_LOSS * doublings(params.block_x / MANY_THREADS)
    loss += FEW_NARROW_LOSS * doublings(VECTOR_BYTES / (params.vector * work.item))
    late = params.reload_weights and not params.weights_in_shared
    accesses = 1 if params.together else params.unroll
    waited = FEW_ROUND_US * (rounds - 1) + (FEW_RELOAD_US * accesses if late else 0.0)
    return FEW_START_US + waited + (1 + loss) * (moved + rounds * (computed + met + issued))
