"""Reductions, with PyTorch's types and the statistics that are built from them.

Dimensions that are 1 by definition are squeezed and not reduced. Halves are reduced in Float.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.errors import DefinitionError
from warpsmith.ir import arithmetic, integers
from warpsmith.ir.carry import Carry, moments, simple
from warpsmith.ir.domains import IterDomain, IterType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Reduction
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Apply, Const, Expr
from warpsmith.ir.tensor import TensorView, Value
from warpsmith.ops.broadcasting import add_axes
from warpsmith.ops.elementwise import apply, tensor_of
from warpsmith.ops.factories import full, full_like
from warpsmith.ops.pointwise import set as copy
from warpsmith.ops.promotion import cast_tensor, check_tensor_type, converted_tensor, rounded
from warpsmith.ops.shape import squeeze
from warpsmith.ops.values import Dims, as_tensor, dimensions


def sum(
    arg: TensorView, dims: Dims | None = None, keepdim: bool = False, dtype: DataType | None = None
) -> TensorView:
    """Sum over `dims`, all by default; integers and bools give Int unless `dtype` is given."""
    return _accumulation("sum", arg, dims, keepdim, dtype)


def prod(
    arg: TensorView, dims: Dims | None = None, keepdim: bool = False, dtype: DataType | None = None
) -> TensorView:
    """Product over `dims`, all by default; integers and bools give Int unless `dtype` is given."""
    return _accumulation("prod", arg, dims, keepdim, dtype)


def max(
    arg: TensorView, dims: Dims | None = None, keepdim: bool = False, dtype: DataType | None = None
) -> TensorView:
    """Largest element over `dims`, all by default; NaN where there is one."""
    return _extreme("max", arg, dims, keepdim, dtype)


def min(
    arg: TensorView, dims: Dims | None = None, keepdim: bool = False, dtype: DataType | None = None
) -> TensorView:
    """Smallest element over `dims`, all by default; NaN where there is one."""
    return _extreme("min", arg, dims, keepdim, dtype)


def mean(
    arg: TensorView, dims: Dims | None = None, keepdim: bool = False, dtype: DataType | None = None
) -> TensorView:
    """Mean over `dims`, all by default, of floats; other types need a float `dtype`."""
    tensor = as_tensor(arg, "mean")
    result = dtype or tensor.dtype
    _check_float("mean", tensor, result)
    reduced = dimensions(tensor, dims, "mean")
    total = sum(converted_tensor(tensor, result.compute), reduced, keepdim)
    count = arithmetic.counted(_count(tensor, reduced), total.dtype)
    return rounded(tensor_of("div", total, count), result)


def var(
    arg: TensorView, dims: Dims | None = None, correction: float = 1, keepdim: bool = False
) -> TensorView:
    """Sum of squared deviations from the mean, divided by the count minus `correction`."""
    return var_mean(arg, dims, correction, keepdim)[0]


def var_mean(
    arg: TensorView, dims: Dims | None = None, correction: float = 1, keepdim: bool = False
) -> tuple[TensorView, TensorView]:
    """(`var`, mean) over `dims`, all by default."""
    tensor = as_tensor(arg, "var_mean")
    _check_float("var_mean", tensor, tensor.dtype)
    reduced = dimensions(tensor, dims, "var_mean")
    average, deviation = _moments(tensor, reduced)
    variance = tensor_of("div", deviation, _corrected(tensor, reduced, correction))
    count = _count(tensor, reduced)
    if not isinstance(count, Const) or count.value == 0:
        count = arithmetic.counted(count, average.dtype)
        whole = apply("div", count, count)  # 1, or NaN for the mean of nothing
        average = tensor_of("mul", average, whole)
    flags = _flags(tensor, reduced, keepdim)
    return (
        rounded(add_axes(variance, flags), tensor.dtype),
        rounded(add_axes(average, flags), tensor.dtype),
    )


def welford(arg: TensorView, dims: Dims) -> tuple[TensorView, TensorView, TensorView]:
    """(mean, sum of squared deviations from it, count) over `dims`.

    The first two are Float, or Double for a Double tensor; the count is Int.
    """
    tensor = as_tensor(arg, "welford")
    _check_float("welford", tensor, tensor.dtype)
    reduced = dimensions(tensor, dims, "welford")
    average, deviation = _moments(tensor, reduced)
    kept = [axis.extent for d, axis in enumerate(tensor.shape_axes) if d not in reduced]
    count = full(kept, _count(tensor, reduced), DataType.Int, fusion=Fusion.of(tensor))
    return average, deviation, count


def _accumulation(
    op: str, arg: TensorView, dims: Dims | None, keepdim: bool, dtype: DataType | None
) -> TensorView:
    tensor = as_tensor(arg, op)
    result = dtype or (tensor.dtype if tensor.dtype.is_float else DataType.Int)
    check_tensor_type(result, op)
    if result is DataType.Bool:
        raise DefinitionError(
            f"{op} got dtype Bool",
            code="WS0118",
            remedy="accumulate in Int, and compare the result with 0",
        )
    source = converted_tensor(tensor, result.compute)
    return rounded(_reduced(op, source, dimensions(tensor, dims, op), keepdim), result)


def _extreme(
    op: str, arg: TensorView, dims: Dims | None, keepdim: bool, dtype: DataType | None
) -> TensorView:
    tensor = as_tensor(arg, op)
    reduced = dimensions(tensor, dims, op)
    check_extents(op, tensor, reduced)
    if tensor.dtype is DataType.Bool:  # compared as integers, which registers hold anyway
        found = _reduced(op, cast_tensor(tensor, DataType.Int32), reduced, keepdim)
        found = cast_tensor(found, DataType.Bool)
    else:
        found = _reduced(op, converted_tensor(tensor, tensor.dtype.compute), reduced, keepdim)
    if dtype is None or dtype is tensor.dtype:
        return rounded(found, tensor.dtype)
    check_tensor_type(dtype, op)
    return cast_tensor(found, dtype)


def check_extents(op: str, tensor: TensorView, reduced: Sequence[int]) -> None:
    """DefinitionError where there is nothing to reduce, and nothing has no value."""
    for d in reduced:
        if tensor.shape_axes[d].extent == integers.ZERO:
            raise DefinitionError(
                f"{op} of {tensor.name} over dimension {d}, which has extent 0",
                code="WS0141",
                remedy="there is no extreme of nothing; reduce other dimensions",
            )


def _reduced(op: str, source: TensorView, reduced: Sequence[int], keepdim: bool) -> TensorView:
    """The reduction of a tensor in its own type; a copy where there is nothing to reduce."""
    (found,) = reduced_states(simple(op, source.dtype), (source,), reduced, keepdim)
    return found


def reduced_states(
    carry: Carry, sources: Sequence[Value], reduced: Sequence[int], keepdim: bool
) -> tuple[TensorView, ...]:
    """The values of the states of all elements over some dimensions; copies where there are none.

    Args:
        sources: the values of an element's state, in the rule's types; tensors have one shape.
    """
    shape = next(value for value in sources if isinstance(value, TensorView))
    flags = _flags(shape, reduced, keepdim)
    narrow, left = _without_ones(shape, reduced)
    values = [
        _without_ones(value, reduced)[0] if isinstance(value, TensorView) else value
        for value in sources
    ]
    if left:
        axes = _axes(narrow, left)
        outputs = [
            Fusion.of(shape).tensor(dtype, tuple(IterDomain(a.extent, a.kind) for a in axes))
            for dtype in carry.dtypes
        ]
        Fusion.of(shape).append(Reduction(carry, tuple(values), tuple(outputs)))
    else:
        made = (v if isinstance(v, TensorView) else full_like(narrow, v, v.dtype) for v in values)
        outputs = [copy(v) if v in sources and not any(flags) else v for v in made]
    return tuple(add_axes(output, flags) for output in outputs)


def _moments(tensor: TensorView, reduced: Sequence[int]) -> tuple[TensorView, TensorView]:
    """Mean and sum of squared deviations, in Float or Double, without the reduced dimensions."""
    source = converted_tensor(tensor, tensor.dtype.compute)
    narrow, left = _without_ones(source, reduced)
    if not left:
        return copy(narrow), tensor_of("sub", narrow, narrow)  # NaN where it is not finite
    fusion, dtype = Fusion.of(narrow), narrow.dtype
    mean, m2, count = (fusion.tensor(dtype, _axes(narrow, left)) for _ in range(3))
    lifted = (narrow, Const(0, dtype), Const(1, dtype))
    fusion.append(Reduction(moments(dtype), lifted, (mean, m2, count)))
    return mean, m2


def _without_ones(source: TensorView, reduced: Sequence[int]) -> tuple[TensorView, tuple[int, ...]]:
    """The tensor without those reduced dimensions that are 1, and where the others are then."""
    ones = [d for d in reduced if source.shape_axes[d].is_broadcast]
    kept = [d for d in range(source.rank) if d not in ones]
    left = tuple(position for position, d in enumerate(kept) if d in reduced)
    return squeeze(source, ones), left


def _axes(source: TensorView, reduced: Sequence[int]) -> tuple[IterDomain, ...]:
    return tuple(
        IterDomain(axis.extent, IterType.reduction if d in reduced else axis.kind)
        for d, axis in enumerate(source.shape_axes)
    )


def _flags(tensor: TensorView, reduced: Sequence[int], keepdim: bool) -> tuple[bool, ...]:
    """For `add_axes`: the reduced dimensions come back as 1 if `keepdim`."""
    if not keepdim:
        return (False,) * (tensor.rank - len(reduced))
    return tuple(d in reduced for d in range(tensor.rank))


def _count(tensor: TensorView, reduced: Sequence[int]) -> Expr:
    return integers.mul(*(tensor.shape_axes[d].extent for d in reduced))


def _corrected(tensor: TensorView, reduced: Sequence[int], correction: float) -> Expr:
    """`max(count - correction, 0)` in the type that the tensor is computed in."""
    dtype = tensor.dtype.compute
    count = _count(tensor, reduced)
    if isinstance(count, Const):
        left = float(count.value) - correction
        return Const(left if left > 0 else 0.0, dtype)
    if correction == 0:
        return arithmetic.counted(count, dtype)  # which is not computed anew for each result
    difference = Apply(
        "sub", (arithmetic.counted(count, dtype), Const(float(correction), dtype)), dtype
    )
    return Apply("maximum", (difference, Const(0.0, dtype)), dtype)


def _check_float(op: str, tensor: TensorView, dtype: DataType) -> None:
    check_tensor_type(dtype, op)
    if not dtype.is_float:
        raise DefinitionError(
            f"{op} of {tensor.name} got type {dtype.name}",
            code="WS0118",
            remedy="cast it to one of Double, Float, Half, BFloat16",
        )
