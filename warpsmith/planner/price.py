"""What kernels take, roughly: enough to choose between plans that differ by a factor."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from warpsmith.targets.atoms import FLOAT_RATE, HALF_RATE, Atom, Unit
from warpsmith.targets.target import Rates

MEMORY_SHARE = 0.831
"""Of the memory's rate, what a copy of much memory reads and writes (one H200, 2026-11)."""

TENSOR_SHARE = 0.505
"""Of the rate of tensor cores, what 16-bit products of common sizes reach; products of other types
are taken to reach as much of theirs."""

THREAD_SHARE = 0.299
"""Of the rate of threads, what products of floats reach."""

TILE = 64
"""Rows and columns that tensor cores multiply in any case."""


def copy_us(size: int, rates: Rates) -> float:
    """Microseconds of a kernel that reads and writes so many bytes."""
    return moved_us(2 * size, rates)


def moved_us(size: int, rates: Rates) -> float:
    """Microseconds of a kernel that moves so many bytes of memory."""
    return rates.launch_us + size / (MEMORY_SHARE * rates.memory)


def product_us(sizes: Sequence[int], rates: Rates, atom: Atom) -> float:
    """Microseconds of a product of sizes (batches, m, n, k) by one kind of instruction."""
    *outer, n, k = sizes
    m = outer[-1] if outer else 1
    if atom.unit is Unit.FMA:
        reached = THREAD_SHARE * rates.fma * atom.rate / FLOAT_RATE
        return rates.launch_us + 2 * prod(sizes) / reached
    whole = [-(-extent // TILE) * TILE for extent in (m, n, k)]
    reached = TENSOR_SHARE * rates.tensor * atom.rate / HALF_RATE
    return rates.launch_us + 2 * prod(outer[:-1]) * prod(whole) / reached
