"""Operations that keep elements by where they are, or by what a mask says."""

from __future__ import annotations

from warpsmith.errors import DefinitionError
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import TensorView
from warpsmith.ops import pointwise
from warpsmith.ops.broadcasting import add_axes
from warpsmith.ops.factories import iota
from warpsmith.ops.values import Scalar, as_tensor


def triu(arg: TensorView, diagonal: int | Expr = 0) -> TensorView:
    """Of each matrix what lies on a diagonal, or right of it; 0 elsewhere. Diagonals with higher
    numbers lie further to the right.
    """
    return _triangle("triu", arg, diagonal, upper=True)


def tril(arg: TensorView, diagonal: int | Expr = 0) -> TensorView:
    """Of each matrix what lies on a diagonal, or left of it; 0 elsewhere."""
    return _triangle("tril", arg, diagonal, upper=False)


def _triangle(op: str, arg: TensorView, diagonal: int | Expr, *, upper: bool) -> TensorView:
    tensor = as_tensor(arg, op)
    if tensor.rank < 2:
        raise DefinitionError(
            f"{op} of {tensor.name} of {tensor.rank} dimensions",
            code="WS0177",
            remedy="give a matrix, or several",
        )
    rows, columns = (_counts(tensor, k) for k in (tensor.rank - 2, tensor.rank - 1))
    compare = pointwise.ge if upper else pointwise.le
    kept = compare(pointwise.sub(columns, rows), diagonal)
    return as_tensor(pointwise.where(kept, tensor, pointwise.cast(0, tensor.dtype)), op)


def _counts(tensor: TensorView, dim: int) -> TensorView:
    """The index of a dimension, of as many dimensions as the tensor has from that on, or two."""
    counted = iota(tensor.shape_axes[dim].extent, dtype=DataType.Int, fusion=Fusion.of(tensor))
    return add_axes(counted, [k != dim for k in range(tensor.rank)])


def one_hot(arg: TensorView, num_classes: int | Expr) -> TensorView:
    """For each element a row of so many numbers, 1 at the place that the element says, else 0.

    Elements below 0, or beyond the row, give a row of zeros.
    """
    tensor = as_tensor(arg, "one_hot")
    check_index(tensor, "one_hot")
    classes = iota(num_classes, dtype=tensor.dtype, fusion=Fusion.of(tensor))
    own = pointwise.eq(add_axes(tensor, [False] * tensor.rank + [True]), classes)
    return as_tensor(pointwise.cast(own, DataType.Int), "one_hot")


def masked_fill(arg: TensorView, mask: TensorView, value: Scalar) -> TensorView:
    """The tensor with a number, in its type, where the mask is true."""
    tensor = as_tensor(arg, "masked_fill")
    filled = pointwise.cast(value, tensor.dtype)
    return as_tensor(pointwise.where(as_tensor(mask, "masked_fill"), filled, tensor), "masked_fill")


def check_index(tensor: TensorView, op: str) -> None:
    """DefinitionError unless elements of a tensor can be indices."""
    if tensor.dtype not in (DataType.Int, DataType.Int32):
        raise DefinitionError(
            f"{op} got the indices {tensor.name} of type {tensor.dtype.name}",
            code="WS0178",
            remedy="cast them to Int or Int32",
        )
