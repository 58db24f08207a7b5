"""Which swizzle of shared memory two loops are."""

from __future__ import annotations

import math

from warpsmith.ir import integers
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.transforms import axis_position

_CHUNK, _LINE = 16, 128
"""Bytes that are moved as one, and that a line of banks has."""


def row_bytes(tensor: TensorView, x: int, y: int) -> int | None:
    """Bytes of the rows that loop `x` permutes along loop `y`; None where it is no such swizzle.

    Of rows of 128 bytes loops are `[.., 8, 8, 16 bytes]`, of 64 `[.., 4, 2, 4, 16 bytes]`.
    """
    first, second = axis_position(tensor, x), axis_position(tensor, y)
    extents = [integers.constant(axis.extent) or 0 for axis in tensor.loop[first:]]
    place = second - first
    if place <= 0:
        return None
    chunk = math.prod(extents[place + 1 :]) * tensor.dtype.size
    line = math.prod(extents[1 : place + 1]) * chunk
    if (chunk, line) != (_CHUNK, _LINE) or extents[0] != extents[place]:
        return None
    return extents[place] * chunk
