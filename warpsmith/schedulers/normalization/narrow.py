"""What rows take whose accesses are narrow: of lengths that no 16-byte vector divides."""

from __future__ import annotations

import math
from collections.abc import Sequence

from warpsmith.schedulers.normalization.rows import InnerPersistentParams

LINE_BYTES = 128
"""Of the L1: what lanes ask for, next to each other, comes in so many bytes."""

VECTOR_BYTES = 16
"""Of an access, from which on loads saturate memory with few of them on their way."""

ASKED_BYTES = 66560
"""Of rows that a multiprocessor best asks for at once with narrower accesses, where what a warp
asks for counts as LINE_BYTES or more."""

FEW_LOSS, MANY_LOSS = 0.5, 0.3
"""More of the time for each halving and each doubling of these bytes."""

ENOUGH_WARPS, WARPS_LOSS = 40, 0.1
"""Warps of a multiprocessor, and more of the time for each halving of them."""

RELOAD_LOSS, AGAIN_LOSS, SPARE_LOSS = 0.02, 0.1, 1.0
"""More of the time where what all rows share is loaded where it is used, and where costly values
are computed again; and of the threads' elements those that no row has. With these losses what is
chosen takes 1.03 times as long as the fastest that was timed, 1.1 times at worst
(tests/schedulers/timings/narrow_rows.json)."""

NARROW_TIMES = {
    2: (1.3, 1.55, 1.43),
    4: (1.1, 1.13, 1.42),
    8: (1.0, 1.0, 1.05),
}
"""What waves take of the time that the model says it takes to move so much: by the bytes of an
access, two and fewer alike, where rows share no input, one, or two and more. With these the faster
of waves and a role is mostly taken for rows of 1025 to 16381 elements
(docs/lessons/row_lengths.md)."""

ALONE_TIMES = 1.5
"""Times as long where a multiprocessor has but one block."""


def is_narrow(vector: int, sizes: Sequence[int]) -> bool:
    """Whether accesses to inputs whose elements have such sizes have fewer than VECTOR_BYTES."""
    return vector * max(sizes, default=4) < VECTOR_BYTES


def narrow_time(access: int, shared: int) -> float:
    """Of the time to move as much, what accesses of so few bytes take, with so many inputs that all
    rows share.
    """
    return NARROW_TIMES[max(2, access)][min(shared, 2)]


def narrow_loss(params: InnerPersistentParams, sizes: Sequence[int], length: int) -> float:
    """How much longer rows take than in the best shape, if their accesses are narrow."""
    line = sum(max(LINE_BYTES, 32 * params.vector * size) for size in sizes)
    accesses = params.blocks_per_sm * params.block_y * params.rows_per_thread * params.unroll
    doublings = math.log2(max(1, accesses * params.block_x * line) / 32 / ASKED_BYTES)
    warps = params.blocks_per_sm * params.block_y * params.block_x / 32
    lacking = WARPS_LOSS * max(0.0, math.log2(ENOUGH_WARPS / warps))
    held = params.cluster * params.block_x * params.unroll * params.vector
    crowd = MANY_LOSS * doublings if doublings > 0 else -FEW_LOSS * doublings
    ways = (AGAIN_LOSS if params.again else 0.0) + (RELOAD_LOSS if params.reload_weights else 0.0)
    spare = SPARE_LOSS * (held / length - 1)
    return (1 + crowd) * (1 + lacking) * (1 + ways) * (1 + spare)
