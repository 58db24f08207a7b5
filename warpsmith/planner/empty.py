"""Tensors without elements in a call.

A kernel's grid covers the dimensions of all of its results, so one with an empty result among them
is not launched, and its loops those of all that it reduces. What is empty, and what is made of it,
is therefore never computed together with what is not.
"""

from __future__ import annotations

from collections.abc import Mapping

from warpsmith.ir import integers
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Expr, evaluate
from warpsmith.ir.tensor import TensorView


def empty_tensors(fusion: Fusion, values: Mapping[str, int]) -> frozenset[int]:
    """Numbers of the tensors that have no elements for these sizes."""
    return frozenset(t.number for t in fusion.tensors if is_empty(t, values))


def is_empty(tensor: TensorView, values: Mapping[str, int]) -> bool:
    """Whether a tensor has no elements, of those sizes that are known: what loops are cut by has a
    size of its own, which is not 0.
    """
    return any(_is_0(axis.extent, values) for axis in tensor.shape_axes)


def _is_0(extent: Expr, values: Mapping[str, int]) -> bool:
    known = integers.constant(extent)
    if known is not None or 0 not in values.values():
        return known == 0
    try:
        return evaluate(extent, values) == 0
    except KeyError:
        return False
