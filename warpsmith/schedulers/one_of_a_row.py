"""Sums of rows of which one element at most is not 0: that whose number the row says.

Such is the sum of a loss's gradient along the classes, which is one number for each row.
"""

from __future__ import annotations

from collections.abc import Container

from warpsmith.ir.domains import IterDomain
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Full, Iota, Move, Pointwise, Reduction, made_by
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Apply, Const
from warpsmith.ir.tensor import TensorView, Value
from warpsmith.ops import pointwise
from warpsmith.ops.shape import squeeze
from warpsmith.ops.values import as_tensor

_WHOLE = (DataType.Index, DataType.Int, DataType.Int32)
"""Types of places."""


def choose_in_place_of_sum(fusion: Fusion, total: Reduction) -> bool:
    """Put `where(0 <= place < n, x, 0)` for `sum(where(iota(n) == place, x, 0))` along n elements;
    whether the reduction is such.
    """
    gone = [k for k, axis in enumerate(total.output.logical) if axis.is_reduction]
    choice = made_by(total.source, "where")
    if total.op != "sum" or len(gone) != 1 or choice is None or not _is_zero(choice.inputs[2]):
        return False
    equal, (dim,) = made_by(choice.inputs[0], "eq"), gone
    if equal is None or total.output.dtype is not choice.output.dtype:
        return False
    numbers, place = equal.inputs
    if not _counts(numbers, dim):
        numbers, place = place, numbers
    value = choice.inputs[1]
    shared = [v for v in (place, value) if isinstance(v, TensorView)]
    if not (_counts(numbers, dim) and all(_is_shared(tensor, dim) for tensor in shared)):
        return False
    with fusion.placed_before(total):
        place, value = (
            squeeze(each, [dim]) if isinstance(each, TensorView) else each
            for each in (place, value)
        )
        extent = total.source.shape_axes[dim].extent
        inside = pointwise.logical_and(pointwise.ge(place, 0), pointwise.lt(place, extent))
        found = as_tensor(pointwise.where(inside, value, Const(0, total.output.dtype)), "where")
    output = total.output
    kept = (axis for axis in output.logical if not axis.is_reduction)
    output.root = output.logical = tuple(IterDomain(axis.extent, axis.kind) for axis in kept)
    output.loop = list(output.logical)
    fusion.replace(total, Pointwise("set", (found,), output))
    return True


def unexpanded(value: Value) -> Value:
    """What is repeated along dimensions, as it was before."""
    while isinstance(value, TensorView) and isinstance(value.definition, Move):
        if value.definition.kind != "expand":
            break
        value = value.definition.source
    return value


def _counts(value: Value, dim: int) -> bool:
    """Whether a value is the number of the element along a dimension, in a type that has all of
    these, and nothing between two of them: else several elements, or none, may be the place.
    """
    tensor = _unmoved(value, _WHOLE)
    made = None if tensor is None else tensor.definition
    if not (isinstance(made, Iota) and isinstance(value, TensorView)) or value.dtype not in _WHOLE:
        return False
    walked = [k for k, axis in enumerate(value.shape_axes) if not axis.is_broadcast]
    return walked == [dim] and is_number(made.start, 0) and is_number(made.step, 1)


def _is_zero(value: Value) -> bool:
    tensor = _unmoved(value)
    made = None if tensor is None else tensor.definition
    return is_number(made.value if isinstance(made, Full) else value, 0)


def _unmoved(value: Value, types: Container[DataType] = tuple(DataType)) -> TensorView | None:
    """What a tensor is made of by broadcasts, copies and casts of such types; None for a scalar."""
    while isinstance(value, TensorView):
        made = value.definition
        if isinstance(made, Move) and made.kind in ("broadcast", "broadcast_in_dim", "expand"):
            value = made.source
        elif isinstance(made, Pointwise) and made.op in ("cast", "set"):
            (value,) = made.inputs
            if isinstance(value, TensorView) and value.dtype not in types:
                return None
        else:
            return value
    return None


def is_number(value: Value, number: int) -> bool:
    """Whether it is this constant, in whatever type."""
    if isinstance(value, Apply) and value.op == "cast":
        return is_number(value.args[0], number)
    return isinstance(value, Const) and value.value == number


def _is_shared(tensor: TensorView, dim: int) -> bool:
    """Whether it is the same for all elements along a dimension."""
    return tensor.shape_axes[dim].is_broadcast
