"""How an array lies in memory, as a definition states it."""

from __future__ import annotations

from typing import NamedTuple


class MemoryFormat(NamedTuple):
    """Order and gaps of an array's dimensions.

    Attributes:
        contiguity: per dimension, whether its stride is the product of the faster extents; None
            where the extent is 1.
        stride_order: rank of each dimension in memory, 0 the fastest; None for row-major.
    """

    contiguity: tuple[bool | None, ...]
    stride_order: tuple[int, ...] | None
