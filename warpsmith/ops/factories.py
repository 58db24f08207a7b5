"""Tensors from nothing but scalars."""

from __future__ import annotations

from warpsmith.errors import DefinitionError
from warpsmith.ir import arithmetic, integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Full, Iota
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.broadcasting import axis_of
from warpsmith.ops.promotion import check_tensor_type
from warpsmith.ops.shape import Extents, as_extent
from warpsmith.ops.values import Scalar, as_scalar, as_tensor


def full(
    shape: Extents, fill_value: Scalar, dtype: DataType | None = None, *, fusion: Fusion
) -> TensorView:
    """A tensor of which every element is `fill_value`.

    Args:
        shape: ints and integer scalars of the fusion.
        dtype: by default that of the value, Float for Python's floats as in PyTorch.
        fusion: where the tensor is defined.
    """
    value = as_scalar(fill_value, "full")
    if dtype is None:
        dtype = {0: DataType.Bool, 1: DataType.Int, 2: DataType.Float}[value.dtype.category]
    check_tensor_type(dtype, "full")
    axes = tuple(axis_of(as_extent(extent, "full")) for extent in shape)
    output = fusion.tensor(dtype, axes)
    fusion.append(Full(arithmetic.convert(value, dtype), output))
    return output


def zeros(shape: Extents, dtype: DataType = DataType.Float, *, fusion: Fusion) -> TensorView:
    """`full` of 0."""
    return full(shape, 0, dtype, fusion=fusion)


def ones(shape: Extents, dtype: DataType = DataType.Float, *, fusion: Fusion) -> TensorView:
    """`full` of 1."""
    return full(shape, 1, dtype, fusion=fusion)


def full_like(arg: TensorView, fill_value: Scalar, dtype: DataType | None = None) -> TensorView:
    """A tensor of the shape, and by default of the type, of `arg`."""
    tensor = as_tensor(arg, "full_like")
    extents = [axis.extent for axis in tensor.shape_axes]
    return full(extents, fill_value, dtype or tensor.dtype, fusion=Fusion.of(tensor))


def zeros_like(arg: TensorView, dtype: DataType | None = None) -> TensorView:
    """`full_like` of 0."""
    return full_like(arg, 0, dtype)


def ones_like(arg: TensorView, dtype: DataType | None = None) -> TensorView:
    """`full_like` of 1."""
    return full_like(arg, 1, dtype)


def iota(
    length: int | Expr,
    start: Scalar = 0,
    step: Scalar = 1,
    dtype: DataType = DataType.Int,
    *,
    fusion: Fusion,
) -> TensorView:
    """`start + step * i` for `i` below `length`, in one dimension."""
    check_tensor_type(dtype, "iota")
    if dtype is DataType.Bool or dtype.is_small_int or dtype.is_narrow:
        raise DefinitionError(
            f"iota got dtype {dtype.name}",
            code="WS0118",
            remedy="use Int, Int32, Float or Double, and cast the result",
        )
    first, increment = (as_scalar(value, "iota") for value in (start, step))
    extent = as_extent(length, "iota")
    if extent == integers.ONE:
        return full([1], first, dtype, fusion=fusion)
    output = fusion.tensor(dtype, (axis_of(extent),))
    fusion.append(
        Iota(arithmetic.convert(first, dtype), arithmetic.convert(increment, dtype), output)
    )
    return output
