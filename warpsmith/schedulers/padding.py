"""Rows of what passes between kernels, padded so that the TMA unit can load them.

A planner calls `pad_rows` on a tensor that one segment writes and another one reads, before it
cuts or in both; the engine gives each call the pitch, in elements, as that dimension's stride.
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


def pad_rows(tensor: TensorView) -> None:
    """Let the rows of a tensor, along its fastest dimension, begin at multiples of 16 bytes.

    In memory the tensor keeps the order of its dimensions. One without rows stays as it is. What
    the caller of the program lays out is not to be padded; the segment that writes a tensor and the
    one that reads it must agree.
    """
    row = _row_dimension(tensor)
    if row is not None:
        flags = enumerate(tensor.contiguity)
        tensor.contiguity = tuple(False if d == row else flag for d, flag in flags)


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
    row = _row_dimension(tensor)
    if row is None or tensor.contiguity[row] is not False:
        return {}
    fastest = _concrete(tensor)[-1]
    elements = evaluate(tensor.shape_axes[fastest].extent, dict(values))
    return {f"{tensor.name}_stride{row}": pitch(elements, tensor.dtype.size)}


def _row_dimension(tensor: TensorView) -> int | None:
    """The second fastest dimension, along which rows follow each other."""
    order = _concrete(tensor)
    return order[-2] if len(order) > 1 else None


def _concrete(tensor: TensorView) -> list[int]:
    return [d for d in tensor.memory_order() if not tensor.shape_axes[d].is_broadcast]
