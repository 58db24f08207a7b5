"""Scans: along a dimension, what a rule makes of all elements up to each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from warpsmith.ir.carry import Carry, simple
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Scan
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import TensorView, Value
from warpsmith.ops import pointwise
from warpsmith.ops.broadcasting import add_axes
from warpsmith.ops.carries import LOGSUMEXP, extreme_at, finished, lifted_states
from warpsmith.ops.factories import full_like, iota
from warpsmith.ops.pointwise import set as copy
from warpsmith.ops.promotion import cast_tensor, check_tensor_type, converted_tensor, rounded
from warpsmith.ops.rules import CarryRule
from warpsmith.ops.values import as_tensor, dimension

CUMMAX = CarryRule(
    name="cummax",
    identity={"value": -math.inf, "index": -1},
    join=lambda a, b: extreme_at(a, b, pointwise.maximum, pointwise.gt),
)
CUMMIN = CarryRule(
    name="cummin",
    identity={"value": math.inf, "index": -1},
    join=lambda a, b: extreme_at(a, b, pointwise.minimum, pointwise.gt),
)


def scan(
    arg: TensorView | Sequence[Value | float],
    rule: CarryRule,
    dim: int,
    *,
    exclusive: bool = False,
    reverse: bool = False,
) -> Any:
    """At each place along `dim`, the state of all elements up to it, joined by a rule.

    Several tensors, and numbers, together are the element that the rule's `lift` takes. The result
    is what `finish` makes of the states, or all of their values, one or a tuple.

    Args:
        exclusive: the element itself is left out; the first result is that of the state of nothing.
        reverse: all elements from the place on are joined, and not those up to it.

    Raises:
        DefinitionError: WS0149, WS0160 for a rule that is none.
    """
    elements = tuple(arg) if isinstance(arg, Sequence) else (arg,)
    lifted, carry = lifted_states(elements, rule)
    states = _scanned(carry, lifted, dim, exclusive=exclusive, reverse=reverse)
    return finished(rule, carry, states)


def _scanned(
    carry: Carry, sources: Sequence[Value], dim: int, *, exclusive: bool, reverse: bool
) -> tuple[TensorView, ...]:
    shape = next(value for value in sources if isinstance(value, TensorView))
    position = dimension(shape, dim, carry.name, rank=max(shape.rank, 1))
    if not shape.rank or shape.shape_axes[position].is_broadcast:
        values = carry.identity if exclusive else sources
        made = (v if isinstance(v, TensorView) else full_like(shape, v, v.dtype) for v in values)
        return tuple(map(copy, made))
    outputs = tuple(
        Fusion.of(shape).tensor(
            dtype, tuple(IterDomain(axis.extent, axis.kind) for axis in shape.shape_axes)
        )
        for dtype in carry.dtypes
    )
    Fusion.of(shape).append(Scan(carry, tuple(sources), outputs, position, exclusive, reverse))
    return outputs


def cumsum(
    arg: TensorView,
    dim: int,
    dtype: DataType | None = None,
    *,
    exclusive: bool = False,
    reverse: bool = False,
) -> TensorView:
    """Sums of all elements up to each; integers and bools give Int unless `dtype` is given.

    `exclusive` leaves each element itself out; `reverse` sums from the end, which is the gradient.
    """
    return _accumulated("sum", "cumsum", arg, dim, dtype, exclusive=exclusive, reverse=reverse)


def cumprod(
    arg: TensorView,
    dim: int,
    dtype: DataType | None = None,
    *,
    exclusive: bool = False,
    reverse: bool = False,
) -> TensorView:
    """Products of all elements up to each; integers and bools give Int unless `dtype` is given.

    `exclusive` leaves each element itself out; `reverse` multiplies from the end.
    """
    return _accumulated("prod", "cumprod", arg, dim, dtype, exclusive=exclusive, reverse=reverse)


def cummax(arg: TensorView, dim: int) -> tuple[TensorView, TensorView]:
    """(largest element up to each, where it is): of equal ones the last; NaN from where one is."""
    return _extreme(CUMMAX, arg, dim)


def cummin(arg: TensorView, dim: int) -> tuple[TensorView, TensorView]:
    """(smallest element up to each, where it is): of equal ones the last; NaN from where one is."""
    return _extreme(CUMMIN, arg, dim)


def logcumsumexp(arg: TensorView, dim: int) -> TensorView:
    """log of the sum of exponentials of all elements up to each, whatever their range."""
    tensor = as_tensor(arg, "logcumsumexp")
    result = tensor.dtype if tensor.dtype.is_float else DataType.Float
    found = scan(converted_tensor(tensor, result.compute), LOGSUMEXP, dim)
    return rounded(as_tensor(found, "logcumsumexp"), result)


def _accumulated(
    op: str,
    name: str,
    arg: TensorView,
    dim: int,
    dtype: DataType | None,
    *,
    exclusive: bool,
    reverse: bool,
) -> TensorView:
    tensor = as_tensor(arg, name)
    result = dtype or (tensor.dtype if tensor.dtype.is_float else DataType.Int)
    check_tensor_type(result, name)
    inside = DataType.Int32 if result is DataType.Bool else result.compute
    source = converted_tensor(tensor, inside)
    carry = simple(op, inside)
    (found,) = _scanned(carry, (source,), dim, exclusive=exclusive, reverse=reverse)
    return cast_tensor(found, result) if result is DataType.Bool else rounded(found, result)


def _extreme(rule: CarryRule, arg: TensorView, dim: int) -> tuple[TensorView, TensorView]:
    tensor = as_tensor(arg, rule.name)
    position = dimension(tensor, dim, rule.name, rank=max(tensor.rank, 1))
    numbers = tensor.shape_axes[position].extent if tensor.rank else 1
    places = iota(numbers, fusion=Fusion.of(tensor))
    if tensor.rank:
        places = add_axes(places, [d != position for d in range(tensor.rank)])
    else:
        places = full_like(tensor, 0, DataType.Int)
    source = tensor if tensor.dtype is not DataType.Bool else cast_tensor(tensor, DataType.Int32)
    value, index = scan((source, places), rule, position)
    if tensor.dtype is DataType.Bool:
        return cast_tensor(value, DataType.Bool), index
    return rounded(value, tensor.dtype), index
