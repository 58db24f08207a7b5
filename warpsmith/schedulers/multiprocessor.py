"""How what limits a multiprocessor adds up, and what blocks of rows are given of it."""

from __future__ import annotations

import math

SHARED_FIXED = 3072
"""Bytes of shared memory of a block that loops over rows, besides their stages and what it sums."""

ENOUGH_BYTES = 49152
"""Bytes of rows, or columns, that a multiprocessor is to hold at once, some of which are being
loaded: an estimate."""

ENOUGH_WARPS = 16
"""Warps of a multiprocessor from which on more of them hide no more: measured on an H200
(2026-11-21) with norms backward of 1024 to 16384 columns."""

CLUSTERS = (1, 2, 4, 8, 16)
"""Blocks over which a row, or columns, may be spread, where the target runs such clusters."""


def power_of_two_above(value: int) -> int:
    """The smallest power of two that is no less."""
    return 1 << max(0, value - 1).bit_length()


def together(sharpness: float, *limits: float) -> float:
    """A smooth maximum: the longest is not all, if others come near."""
    longest = max(limits)
    if longest == 0:
        return 0.0
    total = math.fsum((limit / longest) ** sharpness for limit in limits)
    return float(longest * total ** (1 / sharpness))
