"""Operations of nvFuser that are several: products of groups and with scales, orders."""

from __future__ import annotations

from typing import Any

from warpsmith import ops as own
from warpsmith.frontends.nvfuser_direct.arguments import number, type_of
from warpsmith.frontends.nvfuser_direct.enums import DataType
from warpsmith.frontends.nvfuser_direct.failures import unsupported
from warpsmith.frontends.nvfuser_direct.operation import operation
from warpsmith.ir.dtypes import DataType as Type
from warpsmith.ir.fusion import Fusion as Program
from warpsmith.ops.grouped import group_of_each

__all__ = [
    "grouped_mm",
    "scaled_mm",
    "topk",
]


@operation
def grouped_mm(
    mat1: Any,
    mat2: Any,
    offsets: Any,
    scale1: Any = None,
    scale2: Any = None,
    alpha: Any = None,
    bias: Any = None,
    beta: Any = None,
    dtype: Any = DataType.Null,
) -> Any:
    """Products of groups, each of which ends before the place that `offsets` says.

    Of `mat1 [m, k]` and `mat2 [groups, k, n]` rows are grouped, of `[groups, m, k]` and `[k, n]`
    columns; of `[m, k]` and `[k, n]` what is summed, and the result is `[groups, m, n]`. Scales of
    rows and columns have a 1 in place of k, and `groups` in front where what they scale has groups.
    """
    if not (alpha is None and bias is None and beta is None):
        raise unsupported("ops.grouped_mm", "it adds nothing, and alpha is a factor", "use mul")
    if (mat1.rank, mat2.rank) not in ((2, 3), (3, 2), (2, 2)):
        raise unsupported(
            "ops.grouped_mm",
            f"operands have {mat1.rank} and {mat2.rank} dimensions",
            "give 2 and 3, 3 and 2, or 2 and 2",
        )
    is_scaled = scale1 is not None or scale2 is not None
    made = _by_groups(mat1, mat2, offsets, Type.Float if is_scaled else None)
    for scale, groups_rows in ((scale1, False), (scale2, True)):
        if scale is not None and mat1.rank != mat2.rank and scale.rank == 3:
            scale = _of_each(scale, offsets, made, groups_rows)
        made = made if scale is None else own.mul(made, scale)
    return own.cast(made, type_of(dtype) or (Type.BFloat16 if is_scaled else made.dtype))


def _by_groups(mat1: Any, mat2: Any, offsets: Any, dtype: Type | None) -> Any:
    if mat2.rank == 3:
        return own.grouped_matmul(mat1, own.transpose(mat2), offsets, dtype=dtype)
    if mat1.rank == 3:
        columns = own.transpose(mat2)
        return own.transpose(own.grouped_matmul(columns, mat1, offsets, dtype=dtype))
    if mat1.dtype.is_float8:
        mat1, mat2 = own.cast(mat1, Type.Half), own.cast(mat2, Type.Half)
    places = own.iota(offsets.size(0), dtype=Type.Int, fusion=Program.of(mat1))
    of_columns = own.broadcast(_group_along(mat1, -1, offsets), [True, False])
    belongs = own.eq(of_columns, own.broadcast(places, [False, True]))
    alone: Any = own.where(
        own.broadcast(belongs, [False, True, False]),
        own.broadcast(mat1, [True, False, False]),
        0.0,
    )
    return own.matmul(alone, mat2, dtype=dtype)


def _group_along(tensor: Any, dim: int, offsets: Any) -> Any:
    return group_of_each(tensor.shape_axes[dim].extent, offsets)


def _of_each(scale: Any, offsets: Any, made: Any, of_rows: bool) -> Any:
    """Scales of groups for each row of a product, or each column."""
    group = _group_along(made, -2 if of_rows else -1, offsets)
    last = own.minimum(group, own.sub(own.size(offsets, 0), 1))
    chosen = own.index_select(own.squeeze(scale, [1 if of_rows else 2]), last, 0)
    return chosen if of_rows else own.transpose(chosen)


@operation
def scaled_mm(
    mat1: Any,
    mat2: Any,
    scale1: Any,
    scale2: Any,
    alpha: Any = None,
    bias: Any = None,
    beta: Any = None,
    dtype: Any = DataType.BFloat16,
) -> Any:
    """`alpha * (mat1 * scale1) @ (mat2 * scale2) + beta * bias`."""
    made = own.scaled_matmul(mat1, mat2, scale1, scale2, dtype=Type.Float)
    if alpha is not None:
        made = own.mul(made, alpha)
    if bias is not None:
        made = own.add(made, bias if beta is None else own.mul(bias, beta))
    return own.cast(made, type_of(dtype) or made.dtype)


@operation
def topk(arg: Any, k: Any, dim: int = -1, largest: bool = True, sorted: bool = False) -> Any:
    """(The k largest or smallest elements, where they stand), in order; a call may say how many."""
    count = number(k)
    if isinstance(count, int):
        return own.topk(arg, count, dim, largest, sorted)
    order = own.narrow(own.argsort(arg, dim, largest), dim, 0, count)
    return own.gather(arg, order, dim), order
