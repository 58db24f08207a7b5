"""Tensors without elements in a call.

A kernel's grid covers the dimensions of all of its results, so one with an empty result among them
is not launched. What is empty is therefore never computed together with what is not.
"""

from __future__ import annotations

from collections.abc import Mapping

from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import evaluate


def empty_tensors(fusion: Fusion, values: Mapping[str, int]) -> frozenset[int]:
    """Numbers of the computed tensors that have no elements for these sizes."""
    empty: dict[object, bool] = {}

    def is_empty(extent: object) -> bool:
        if extent not in empty:
            empty[extent] = evaluate(extent, values) == 0  # type: ignore[arg-type]
        return empty[extent]

    return frozenset(
        tensor.number
        for tensor in fusion.computed
        if any(is_empty(axis.extent) for axis in tensor.shape_axes)
    )
