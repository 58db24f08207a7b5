"""What a multiprocessor of sm_90 has, and how what limits it adds up."""

from __future__ import annotations

import math

REGISTERS_PER_SM = 65536
"""CUDA C++ Programming Guide, technical specifications per compute capability; so the next two."""

MOST_BLOCK_THREADS = 1024
SHARED_PER_SM = 227 * 1024
"""Bytes that a block can have."""

SHARED_FIXED = 3072
"""Bytes of shared memory of a block that goes round rows, besides their slots and what it sums."""

CLUSTERS = (1, 2, 4, 8, 16)
"""Blocks over which a row, or columns, may be spread; more than 8 are not portable."""

ISSUED_PER_US = 4 * 1755
"""Instructions of the four schedulers, at the H200's clock."""


def blocks_of_registers(registers: int, threads: int) -> int:
    """Blocks that a multiprocessor has registers for.

    It hands them out 8 a thread, and each of its quarters has its own for a quarter of the warps.
    """
    warp = 32 * 8 * -(-registers // 8)
    warps = 4 * (REGISTERS_PER_SM // 4 // warp)
    return warps // -(-threads // 32)


def together(sharpness: float, *limits: float) -> float:
    """A smooth maximum: the longest is not all, if others come near."""
    longest = max(limits)
    if longest == 0:
        return 0.0
    total = math.fsum((limit / longest) ** sharpness for limit in limits)
    return float(longest * total ** (1 / sharpness))
