"""Rows of what passes between kernels, padded so that the TMA unit can load them.

The planner stores such a tensor with the contiguity that `padded` gives, in the segment that writes
it and in those that read it; the engine gives each call the pitch, in elements, as that dimension's
stride.
"""

from __future__ import annotations

from collections.abc import Mapping

from warpsmith.ir.scalar import evaluate
from warpsmith.ir.tensor import TensorView

GRAIN_BYTES = 16
LINE_BYTES = 128
"""What rows begin at multiples of: the TMA unit takes the former, and loads whole lines faster."""

SPARE = 10
"""Rows begin at whole lines where that makes them longer by less than one part in so many."""


def padded(tensor: TensorView, stride_order: tuple[int, ...] | None) -> tuple[bool | None, ...]:
    """The contiguity of a tensor whose rows, along its fastest dimension, begin at multiples of 16
    bytes where it is stored in that order. One without rows stays as it is.

    What the caller of the program lays out is not to be padded.
    """
    row = _row_dimension(tensor, stride_order)
    return tuple(False if d == row else flag for d, flag in enumerate(tensor.contiguity))


def pitch(elements: int, size: int) -> int:
    """Elements of `size` bytes from one padded row to the next, given those of a row."""
    row = elements * size
    grains, lines = (-(-row // grain) * grain for grain in (GRAIN_BYTES, LINE_BYTES))
    return (lines if SPARE * (lines - row) < row else grains) // size


def pitches(tensor: TensorView, values: Mapping[str, int]) -> dict[str, int]:
    """By the symbol of its stride, the pitch of a tensor that a kernel of the call writes.

    Nothing where its rows are not padded.

    Args:
        values: sizes, by symbol.
    """
    row = _row_dimension(tensor, tensor.stride_order)
    if row is None or tensor.contiguity[row] is not False:
        return {}
    fastest = tensor.concrete_order()[-1]
    elements = evaluate(tensor.shape_axes[fastest].extent, values)
    return {f"{tensor.name}_stride{row}": pitch(elements, tensor.dtype.size)}


def _row_dimension(tensor: TensorView, stride_order: tuple[int, ...] | None) -> int | None:
    """The second fastest dimension, along which rows follow each other."""
    ranks = tuple(range(tensor.rank))[::-1] if stride_order is None else stride_order
    order = sorted(tensor.concrete_order(), key=lambda d: -ranks[d])
    return order[-2] if len(order) > 1 else None
