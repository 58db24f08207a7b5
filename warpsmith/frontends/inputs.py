"""Inputs of a fusion: tensors with named sizes, and scalars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpsmith.errors import DefinitionError
from warpsmith.frontends.memory_format import memory_format_of
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Const, Expr, Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.broadcasting import axis_of
from warpsmith.ops.promotion import check_tensor_type
from warpsmith.ops.shape import check_stride_order
from warpsmith.runtime import arrays

SYMBOLIC = -1


def define_input(
    fusion: Fusion,
    shape: Sequence[int | Expr],
    contiguity: Sequence[bool | None],
    dtype: DataType,
    stride_order: Sequence[int] | None = None,
) -> TensorView:
    """A new input tensor.

    Args:
        shape: -1 for a size that each call may choose, 1 for a broadcast dimension, else the size,
            which may be an expression of sizes of other inputs.
        contiguity: per dimension; what it says of broadcast dimensions does not matter.
        stride_order: rank of each dimension in memory, 0 the fastest; row-major if None.
    """
    check_tensor_type(dtype, "define_tensor")
    if stride_order is not None:
        check_stride_order(stride_order, len(shape), "define_tensor")
    axes = tuple(axis_of(_extent(fusion, d, value)) for d, value in enumerate(shape))
    tensor = fusion.tensor(
        dtype,
        axes,
        stride_order=None if stride_order is None else tuple(stride_order),
        contiguity=_contiguity(contiguity, axes),
    )
    fusion.inputs.append(tensor)
    return tensor


def own_size(fusion: Fusion, dimension: int) -> Symbol:
    """The size of a dimension of the next input, which each call may choose."""
    return Symbol(f"{fusion.next_tensor_name}_size{dimension}", low=0)


def define_scalar_input(fusion: Fusion, dtype: DataType) -> Symbol:
    """A new scalar input."""
    allowed = (DataType.Double, DataType.Float, DataType.Int, DataType.Int32, DataType.Bool)
    if dtype not in allowed:
        raise DefinitionError(
            f"define_scalar got dtype {getattr(dtype, 'name', dtype)}",
            code="WS0117",
            remedy=f"scalar inputs are {', '.join(d.name for d in allowed)}",
        )
    symbol = Symbol(fusion.fresh_scalar(), dtype)
    fusion.inputs.append(symbol)
    return symbol


def define_like(fusion: Fusion, array: object) -> TensorView:
    """A new input tensor of an array's type, rank and layout in memory; sizes but 1 may change."""
    info = arrays.describe(array)
    layout = memory_format_of(info.shape, info.strides)
    shape = [1 if extent == 1 else SYMBOLIC for extent in info.shape]
    dtype = DataType(info.dtype)
    return define_input(fusion, shape, layout.contiguity, dtype, layout.stride_order)


def _extent(fusion: Fusion, d: int, value: object) -> Expr:
    if isinstance(value, Expr):
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < SYMBOLIC:
        raise DefinitionError(
            f"define_tensor got {value!r} as the extent of dimension {d}",
            code="WS0151",
            remedy="use -1 for a size that each call may choose, or an extent of 0 or more",
        )
    return own_size(fusion, d) if value == SYMBOLIC else Const(value)


def _contiguity(
    given: Sequence[bool | None], axes: Sequence[IterDomain]
) -> tuple[bool | None, ...]:
    if len(given) != len(axes):
        raise DefinitionError(
            f"define_tensor got {len(given)} contiguity flags for {len(axes)} dimensions",
            code="WS0152",
            remedy="give one flag a dimension, None for those of extent 1",
        )
    for d, (flag, axis) in enumerate(zip(given, axes, strict=True)):
        if flag is None and not axis.is_broadcast:
            raise DefinitionError(
                f"define_tensor got contiguity None for dimension {d}, which is not 1",
                code="WS0152",
                remedy="use True or False there",
            )
    return tuple(
        None if axis.is_broadcast else bool(flag) for flag, axis in zip(given, axes, strict=True)
    )


def is_strides(flags: object) -> bool:
    """Whether what stands where contiguity does is strides: whole numbers."""
    return (
        isinstance(flags, Sequence)
        and len(flags) > 0
        and all(isinstance(flag, int) and not isinstance(flag, bool) for flag in flags)
    )


def flags_of(
    contiguity: Any, shape: Sequence[int], stride_order: Sequence[int] | None
) -> list[bool | None]:
    """Contiguity by dimension; users list it from the slowest dimension in memory."""
    if not isinstance(contiguity, Sequence):
        return [None if extent == 1 else bool(contiguity) for extent in shape]
    flags: list[bool | None] = list(contiguity)
    if stride_order is None or not len(flags) == len(shape) == len(stride_order):
        return flags
    return [flags[len(shape) - 1 - rank] for rank in stride_order]
