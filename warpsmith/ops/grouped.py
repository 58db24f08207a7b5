"""Products of many matrices, each with as many rows as memory says: mixtures of experts."""

from __future__ import annotations

from warpsmith.errors import DefinitionError
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import OF_GROUP, Precision
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import TensorView
from warpsmith.ops import pointwise, reductions
from warpsmith.ops.broadcasting import add_axes
from warpsmith.ops.contraction import (
    check_equal,
    check_rank,
    finished,
    operands,
    product,
    result_of,
)
from warpsmith.ops.factories import iota
from warpsmith.ops.products import bmm, matmul
from warpsmith.ops.shape import transpose
from warpsmith.ops.values import as_tensor, fusion_of

_OP = "grouped_matmul"
_SUMS = "the last dimensions of both operands are summed, and must be equal"
_NO_GROUP = 2**62
_COUNTS = "there is one number for each group: sizes must be equal"


def grouped_matmul(
    x: TensorView,
    weight: TensorView,
    sizes: TensorView,
    *,
    dtype: DataType | None = None,
    precision: Precision = "exact",
) -> TensorView:
    """Rows of `x`, each times the transpose of its group's matrix of `weight [groups, n, k]`.

    Of `x [rows, k]`, rows of a group stand together, and `sizes [groups]` says before which row
    each group ends, as `torch._grouped_mm` takes it; the first begins at 0. Rows behind the last
    end are multiplied by zeros. A group that ends before another before it has no rows, and ends
    beyond the rows count as the nearest one. The result is `[rows, n]`.

    Of `x [groups, rows, k]`, `sizes` says how many rows each group has; those behind them give 0,
    whatever they hold. The result is `[groups, rows, n]`.

    Raises:
        DefinitionError: WS0143 for other ranks, WS0144 for extents that differ, WS0164 for sizes
            that are no Int32 or Int.
    """
    x, weight = operands(_OP, x, weight, precision=precision)
    sizes = as_tensor(sizes, _OP)
    fusion_of((x, weight, sizes), _OP)
    if sizes.dtype not in (DataType.Int32, DataType.Int):
        raise DefinitionError(
            f"{_OP} got sizes {sizes.name} of type {sizes.dtype.name}",
            code="WS0164",
            remedy="cast them to Int32 or Int",
        )
    check_rank(_OP, weight, 3)
    check_rank(_OP, sizes, 1)
    check_equal(_OP, (weight, 0), (sizes, 0), why=_COUNTS)
    if x.rank == 3:
        check_equal(_OP, (x, 0), (weight, 0), why=_COUNTS)
        return finished(_OP, _masked(x, weight, sizes, precision), dtype)
    check_rank(_OP, x, 2)
    check_equal(_OP, (x, 1), (weight, 2), why=_SUMS)
    if any(axis.is_broadcast for axis in (*x.shape_axes, weight.shape_axes[0])):
        return finished(_OP, _of_all_groups(x, weight, sizes, precision), dtype)
    axes = (0, 2), (OF_GROUP, 1, 2)
    return finished(_OP, product(_OP, x, weight, axes, precision, sizes), dtype)


def _of_all_groups(
    x: TensorView, weight: TensorView, ends: TensorView, precision: Precision
) -> TensorView:
    """The product of every row and every group's matrix, of which the row's own is kept: for what
    has one row, one group or one term by definition.
    """
    own = pointwise.eq(
        add_axes(_numbers(weight.shape_axes[0].extent, ends), (False, True)),
        add_axes(group_of_each(x.shape_axes[0].extent, ends), (True, False)),
    )
    made = matmul(add_axes(x, (True, False, False)), transpose(weight), precision=precision)
    kept = as_tensor(pointwise.where(add_axes(own, (False, False, True)), made, 0), _OP)
    return reductions.sum(kept, [0], dtype=result_of(x.dtype))


def group_of_each(count: Expr, ends: TensorView) -> TensorView:
    """The group of each of so many places, the first that ends behind it; where none does, a number
    that no group has.
    """
    numbers, places = (_numbers(n, ends) for n in (ends.shape_axes[0].extent, count))
    behind = pointwise.gt(add_axes(ends, (False, True)), add_axes(places, (True, False)))
    after = pointwise.where(behind, add_axes(numbers, (False, True)), _NO_GROUP)
    return reductions.min(as_tensor(after, _OP), [0])


def _numbers(count: Expr, beside: TensorView) -> TensorView:
    return iota(count, dtype=DataType.Int, fusion=Fusion.of(beside))


def _masked(
    x: TensorView, weight: TensorView, counts: TensorView, precision: Precision
) -> TensorView:
    """The products of all rows, and 0 for those that a group does not have."""
    made = bmm(x, transpose(weight), precision=precision)
    row = add_axes(iota(x.shape_axes[1].extent, fusion=Fusion.of(x)), (True, False, True))
    own = pointwise.lt(row, add_axes(counts, (False, True, True)))
    return as_tensor(pointwise.where(own, made, 0), _OP)
