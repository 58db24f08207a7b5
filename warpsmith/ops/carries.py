"""Reductions by rules: extremes with their places, log-sum-exp, any, all, and those of users."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from warpsmith.errors import DefinitionError
from warpsmith.ir import integers
from warpsmith.ir.carry import Carry
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import TensorView, Value
from warpsmith.ops import pointwise
from warpsmith.ops.broadcasting import add_axes, aligned, joined_axes
from warpsmith.ops.factories import iota
from warpsmith.ops.promotion import cast_tensor, converted, converted_tensor, rounded
from warpsmith.ops.reductions import check_extents, reduced_states
from warpsmith.ops.reshape import reshape
from warpsmith.ops.rules import CarryRule
from warpsmith.ops.shape import expand
from warpsmith.ops.values import Dims, as_tensor, as_value, dimension, dimensions, fusion_of


def _with_exponentials(a: Any, b: Any) -> tuple[Any, Any]:
    """Sums of exponentials, each scaled by its own largest element, by the larger of both.

    Where that is infinite they are not scaled: infinities have no difference.
    """
    largest = pointwise.maximum(a.m, b.m)
    level = pointwise.where(pointwise.isfinite(largest), largest, 0.0)

    def scaled(side: Any) -> Any:
        return pointwise.mul(side.s, pointwise.exp(pointwise.sub(side.m, level)))

    return largest, pointwise.add(scaled(a), scaled(b))


LOGSUMEXP = CarryRule(
    name="logsumexp",
    identity={"m": -math.inf, "s": 0.0},
    lift=lambda x: (x, 1.0),
    join=_with_exponentials,
    finish=lambda state: pointwise.add(state.m, pointwise.log(state.s)),
)
"""The largest element, and the sum of exponentials of distances to it: online softmax's state."""


def extreme_at(a: Any, b: Any, extreme: Any, preferred: Any) -> tuple[Any, Any]:
    """The extreme of two values with their places, NaN beyond all; of equal ones the place that is
    preferred.
    """
    most = extreme(a.value, b.value)
    in_a, in_b = (
        pointwise.logical_or(pointwise.eq(x, most), pointwise.ne(x, x)) for x in (a.value, b.value)
    )
    takes_b = pointwise.logical_and(
        in_b, pointwise.logical_or(pointwise.logical_not(in_a), preferred(b.index, a.index))
    )
    return most, pointwise.where(takes_b, b.index, a.index)


ARGMAX = CarryRule(
    name="argmax",
    identity={"value": -math.inf, "index": math.inf},
    join=lambda a, b: extreme_at(a, b, pointwise.maximum, pointwise.lt),
    finish=lambda state: state.index,
    needs_elements=True,
)
ARGMIN = CarryRule(
    name="argmin",
    identity={"value": math.inf, "index": math.inf},
    join=lambda a, b: extreme_at(a, b, pointwise.minimum, pointwise.lt),
    finish=lambda state: state.index,
    needs_elements=True,
)


def _truth(x: Any) -> Any:
    return pointwise.cast(pointwise.cast(x, DataType.Bool), DataType.Int32)


ANY = CarryRule(
    name="any",
    identity={"value": 0},
    lift=_truth,
    join=lambda a, b: pointwise.bitwise_or(a.value, b.value),
    finish=lambda state: pointwise.cast(state.value, DataType.Bool),
)
ALL = CarryRule(
    name="all",
    identity={"value": 1},
    lift=_truth,
    join=lambda a, b: pointwise.bitwise_and(a.value, b.value),
    finish=lambda state: pointwise.cast(state.value, DataType.Bool),
)


def reduce(
    arg: TensorView | Sequence[Value | float],
    rule: CarryRule,
    dims: Dims | None = None,
    keepdim: bool = False,
) -> Any:
    """Join the states of all elements over `dims`, all by default, by a rule.

    Several tensors, and numbers, together are the element that the rule's `lift` takes. The result
    is what `finish` makes of the states, or all of their values, one or a tuple.

    Raises:
        DefinitionError: WS0149, WS0160 for a rule that is none, WS0161 for one that does not
            commute.
    """
    elements = tuple(arg) if isinstance(arg, Sequence) else (arg,)
    lifted, carry = lifted_states(elements, rule)
    if not carry.commutative:
        raise DefinitionError(
            f"reduce got the rule {carry.name}, which does not commute",
            code="WS0161",
            remedy="threads take elements in turn; say commutative=True if the order changes "
            "rounding at most",
        )
    tensor = next(value for value in lifted if isinstance(value, TensorView))
    reduced = dimensions(tensor, dims, carry.name)
    if carry.needs_elements:
        check_extents(carry.name, tensor, reduced)
    return finished(rule, carry, reduced_states(carry, lifted, reduced, keepdim))


def lifted_states(elements: Sequence[Any], rule: CarryRule) -> tuple[tuple[Value, ...], Carry]:
    """The values of the elements' states, of one shape, in the types that the rule is given."""
    given = [as_value(element, rule.name) for element in elements]
    tensors = [value for value in given if isinstance(value, TensorView)]
    if not tensors:
        as_tensor(elements[0] if elements else None, rule.name)
    fusion_of(tensors, rule.name)
    made = [as_value(value, rule.name) for value in rule.lifted(given)]
    if not [value for value in made if isinstance(value, TensorView)]:
        raise DefinitionError(
            f"lift of the rule {rule.name} gives numbers alone",
            code="WS0149",
            remedy="lift the element to a state of which some value depends on it",
        )
    floats = [v.dtype.compute for v in (*made, *given) if _is_tensor(v) and v.dtype.is_float]
    dtypes = [
        _computed(value.dtype)
        if _is_tensor(value)
        else DataType.Int
        if not value.dtype.is_float
        else (*floats, DataType.Float)[0]
        for value in made
    ]
    values = aligned([converted(v, dtype) for v, dtype in zip(made, dtypes, strict=True)])
    carry = rule.typed([_element(value.dtype) for value in given], dtypes)
    return _widened(rule.name, values), carry


def _is_tensor(value: Value) -> bool:
    return isinstance(value, TensorView)


def _element(dtype: DataType) -> DataType:
    """The type of elements that a rule is tried on."""
    return dtype if dtype is DataType.Bool else _computed(dtype)


def _computed(dtype: DataType) -> DataType:
    """The type that states of elements of a type have."""
    if dtype is DataType.Bool:
        return DataType.Int32
    return DataType.Int if dtype is DataType.Index else dtype.compute


def _widened(op: str, values: Sequence[Value]) -> tuple[Value, ...]:
    """The values with all tensors of one shape."""
    tensors = [value for value in values if isinstance(value, TensorView)]
    joined = joined_axes(op, tensors)

    def widened(tensor: TensorView) -> TensorView:
        axes = zip(tensor.shape_axes, joined, strict=True)
        return expand(tensor, [(w if a.is_broadcast else a).extent for a, w in axes])

    return tuple(widened(v) if isinstance(v, TensorView) else v for v in values)


def finished(rule: CarryRule, carry: Carry, states: Sequence[TensorView]) -> Any:
    """What the rule makes of states; all of their values where it says nothing."""
    if rule.finish is not None:
        return rule.finish(SimpleNamespace(**dict(zip(carry.states, states, strict=True))))
    return states[0] if len(states) == 1 else tuple(states)


def logsumexp(arg: TensorView, dims: Dims | None = None, keepdim: bool = False) -> TensorView:
    """log(sum(exp(x))) over `dims`, all by default, read once, whatever the range of x."""
    tensor = as_tensor(arg, "logsumexp")
    result = tensor.dtype if tensor.dtype.is_float else DataType.Float
    found = reduce(converted_tensor(tensor, result.compute), LOGSUMEXP, dims, keepdim)
    return rounded(as_tensor(found, "logsumexp"), result)


def argmax(arg: TensorView, dim: int | None = None, keepdim: bool = False) -> TensorView:
    """Where the largest element is along `dim`, of equal ones the first; the first NaN, if any.

    Without `dim` it is a position among all elements in row-major order.
    """
    return _place(ARGMAX, arg, dim, keepdim)


def argmin(arg: TensorView, dim: int | None = None, keepdim: bool = False) -> TensorView:
    """Where the smallest element is along `dim`, of equal ones the first; the first NaN, if any.

    Without `dim` it is a position among all elements in row-major order.
    """
    return _place(ARGMIN, arg, dim, keepdim)


def any(arg: TensorView, dims: Dims | None = None, keepdim: bool = False) -> TensorView:
    """Whether some element over `dims`, all by default, is not 0; false of nothing."""
    return as_tensor(reduce(as_tensor(arg, "any"), ANY, dims, keepdim), "any")


def all(arg: TensorView, dims: Dims | None = None, keepdim: bool = False) -> TensorView:
    """Whether every element over `dims`, all by default, is not 0; true of nothing."""
    return as_tensor(reduce(as_tensor(arg, "all"), ALL, dims, keepdim), "all")


def _place(rule: CarryRule, arg: TensorView, dim: int | None, keepdim: bool) -> TensorView:
    tensor = as_tensor(arg, rule.name)
    position = 0 if dim is None else dimension(tensor, dim, rule.name, rank=max(tensor.rank, 1))
    if dim is None or not tensor.rank:
        flat = reshape(tensor, [-1]) if tensor.rank != 1 else tensor
        place = _place(rule, flat, 0, False)
        return add_axes(place, (keepdim,) * tensor.rank)
    extent = tensor.shape_axes[position].extent
    places = integers.constant(extent)
    short = places is not None and places < 2**31
    short = short and tensor.dtype.compute.size <= 4  # states have no gaps, which nobody writes
    numbers = iota(
        extent, dtype=DataType.Int32 if short else DataType.Int, fusion=Fusion.of(tensor)
    )
    beside = [d != position for d in range(tensor.rank)]
    source = tensor if tensor.dtype is not DataType.Bool else cast_tensor(tensor, DataType.Int32)
    found = reduce((source, add_axes(numbers, beside)), rule, position, keepdim)
    return as_tensor(pointwise.cast(found, DataType.Int), "")
