"""What kernels take, roughly: enough to choose between plans that differ by a factor."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

LAUNCH_US = 2.5
"""A kernel more in a call: its start, its first loads and its last stores (one H200, 2026-11)."""

MEMORY_BYTES_PER_US = 4.0e6
"""What a copy of much memory reads and writes (one H200, 2026-11)."""

TENSOR_FLOPS_PER_US = 5.0e8
"""Multiplications and additions of 16-bit products of common sizes on tensor cores."""

THREAD_FLOPS_PER_US = 2.0e7
"""The same by threads in float."""

EPILOGUE_US_PER_OPERATION = 1.7e-7
"""A pointwise operation on an element in a product's epilogue, while tensor cores wait: bias and
GELU, 10 operations, add 102 us to a product of 4096 x 14336 elements (one H200, 2026-11-22)."""

EPILOGUE_US_PER_BYTE = 1.9e-6
"""A byte of an element that an epilogue loads: a residual of 2 adds 230 us to that product."""

TILE = 64
"""Rows and columns that tensor cores multiply in any case."""


def copy_us(size: int) -> float:
    """Microseconds of a kernel that reads and writes so many bytes."""
    return LAUNCH_US + 2 * size / MEMORY_BYTES_PER_US


def epilogue_us(elements: int, operations: int, loaded: int) -> float:
    """Microseconds that operations, and bytes loaded for each element, add to a product."""
    return elements * (operations * EPILOGUE_US_PER_OPERATION + loaded * EPILOGUE_US_PER_BYTE)


def product_us(sizes: Sequence[int], *, tensor_cores: bool) -> float:
    """Microseconds of a product of sizes (batches, m, n, k)."""
    *outer, n, k = sizes
    m = outer[-1] if outer else 1
    if tensor_cores:
        whole = [-(-extent // TILE) * TILE for extent in (m, n, k)]
        return LAUNCH_US + 2 * prod(outer[:-1]) * prod(whole) / TENSOR_FLOPS_PER_US
    return LAUNCH_US + 2 * prod(sizes) / THREAD_FLOPS_PER_US
