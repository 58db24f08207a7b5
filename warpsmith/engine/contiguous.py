"""Dimensions that are defined with any stride, and lie contiguous in a call.

A definition that says nothing of strides leaves them to each call, and a kernel for any stride
neither loads vectors nor is fed by the TMA unit. So calls whose arrays have no gaps are a class of
their own, with the kernels that the definition with `contiguity=True` would get.
"""

from __future__ import annotations

from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import evaluate
from warpsmith.ir.tensor import TensorView

Dimensions = frozenset[tuple[int, int]]
"""Numbers of input tensors, each with one of its dimensions."""


def contiguous_dimensions(fusion: Fusion, values: dict[str, int]) -> Dimensions:
    """Those that the definition leaves open, and whose stride is 1, or that of the next faster one
    times its extent, in a call of these sizes and strides (as `engine/bind.py` gives them)."""
    return frozenset(
        (tensor.number, dimension)
        for tensor in fusion.input_tensors
        if False in tensor.contiguity
        for dimension in _without_gaps(tensor, values)
        if tensor.contiguity[dimension] is False
    )


def _without_gaps(tensor: TensorView, values: dict[str, int]) -> list[int]:
    found: list[int] = []
    expected = 1
    for dimension in reversed(tensor.memory_order()):
        stride = values[f"{tensor.name}_stride{dimension}"]
        if stride == expected:
            found.append(dimension)
        expected = stride * max(evaluate(tensor.shape_axes[dimension].extent, values), 1)
    return found


def rely_on(fusion: Fusion, dimensions: Dimensions) -> None:
    """Let a program rely on these dimensions' strides, in place; give it a copy."""
    for tensor in fusion.input_tensors:
        flags = enumerate(tensor.contiguity)
        tensor.contiguity = tuple(
            True if (tensor.number, dimension) in dimensions else flag for dimension, flag in flags
        )
