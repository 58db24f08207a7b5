"""What all products are made of: one `Matmul`, or a multiplication and a sum.

The operands are read as they were rounded: what tensor cores multiply has 16 bits or 8. What needs
no tensor cores makes no `Matmul`: a product with a vector, or with one row or column by definition,
is a reduction, but for rows of weights of fewer bits, and one over a single k a multiplication. The
result is rounded implicitly, so what is computed from it reads the sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from warpsmith.errors import DefinitionError
from warpsmith.ir.domains import IterDomain, IterType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Matmul, Move, Precision
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Const, Expr
from warpsmith.ir.tensor import TensorView
from warpsmith.ops import reductions
from warpsmith.ops.broadcasting import add_axes, axis_of
from warpsmith.ops.elementwise import tensor_of
from warpsmith.ops.narrow import narrow_inputs
from warpsmith.ops.pointwise import set as copy
from warpsmith.ops.promotion import (
    cast_tensor,
    check_tensor_type,
    converted_tensor,
    rounded,
    unrounded,
)
from warpsmith.ops.shape import permute
from warpsmith.ops.values import as_tensor, fusion_of

TYPES = tuple(d for d in DataType if d not in (DataType.Bool, DataType.Index))
"""The types that products take."""


def result_of(dtype: DataType) -> DataType:
    """Type of a product of such operands: Float of 8-bit floats, Int32 of bytes, else their own."""
    return dtype.compute if dtype.size == 1 else dtype


def operands(op: str, *given: object, precision: Precision = "exact") -> tuple[TensorView, ...]:
    """Tensors of one fusion that can be multiplied with sums; 8-bit floats of both types can."""
    tensors = tuple(as_tensor(value, op) for value in given)
    fusion_of(tensors, op)
    for tensor in tensors:
        check_type(op, tensor)
        check_equal_types(op, tensors[0], tensor)
    check_precision(op, precision, tensors[0].dtype)
    return tensors


def check_type(op: str, tensor: TensorView) -> None:
    """DefinitionError unless products take the tensor's type."""
    if tensor.dtype not in TYPES:
        raise DefinitionError(
            f"{op} does not take operands of type {tensor.dtype.name}",
            code="WS0118",
            remedy=f"cast to one of {', '.join(dtype.name for dtype in TYPES)}",
        )


def check_equal_types(op: str, a: TensorView, b: TensorView) -> None:
    """DefinitionError unless two operands have one type, or are both 8-bit floats."""
    if a.dtype is not b.dtype and not (a.dtype.is_float8 and b.dtype.is_float8):
        raise DefinitionError(
            f"{op} got {a.name} of type {a.dtype.name} and {b.name} of type {b.dtype.name}",
            code="WS0142",
            remedy="cast one of them: products do not promote",
        )


def check_precision(op: str, precision: str, dtype: DataType) -> None:
    """DefinitionError unless the precision is known, and of these operands something to give up."""
    if precision not in get_args(Precision):
        raise DefinitionError(
            f"{op} got precision {precision!r}",
            code="WS0147",
            remedy=f"it is one of {', '.join(map(repr, get_args(Precision)))}",
        )
    rounds = {
        "tf32": dtype is DataType.Float,
        "fast": dtype.is_float8 or dtype is DataType.Float,
    }
    if not rounds.get(precision, True):
        does = "rounds operands of type Float"
        if precision == "fast":
            does = "sums 8-bit floats with fewer bits"
        raise DefinitionError(
            f"{op} got precision {precision!r} for operands of type {dtype.name}",
            code="WS0147",
            remedy=f"it {does}; leave it out",
        )


def check_rank(op: str, tensor: TensorView, rank: int) -> None:
    """DefinitionError unless an operand has so many dimensions."""
    if tensor.rank != rank:
        raise DefinitionError(
            f"{op} got {tensor.name} of {tensor.rank} dimensions, and takes {rank}",
            code="WS0143",
            remedy="reshape it, or use matmul or einsum",
        )


def check_equal(op: str, *dims: tuple[TensorView, int], why: str) -> None:
    """DefinitionError unless two dimensions are equal, as far as is known; neither is broadcast.

    One that is 1 by definition meets only another one. `why` is the rule, for the message.
    """
    (a, of_a), (b, of_b) = dims
    first, second = a.shape_axes[of_a], b.shape_axes[of_b]
    known = isinstance(first.extent, Const) and isinstance(second.extent, Const)
    if first.is_broadcast is second.is_broadcast and (not known or first.extent == second.extent):
        return
    raise DefinitionError(
        f"{op}: dimension {of_a} of {a.name} has extent {first.extent!r} and dimension {of_b} of "
        f"{b.name} has {second.extent!r}",
        code="WS0144",
        remedy=why,
    )


def finished(op: str, tensor: TensorView, dtype: DataType | None) -> TensorView:
    """The result in the type that was asked for, rounded once: for all that read it, as by a cast,
    where that is a type that is computed in.
    """
    if dtype is None:
        return tensor
    check_tensor_type(dtype, op)
    if tensor.dtype is dtype:
        return tensor
    keep_wide(tensor)
    wide = unrounded(tensor)
    if dtype is DataType.Float and wide.dtype is DataType.Double:
        return cast_tensor(wide, dtype)
    return rounded(wide, dtype)


def keep_wide(tensor: TensorView) -> None:
    """What an operation goes on with, moved or not, is not rounded to the type that its operands
    would give, wherever kernels end.
    """
    wide = unrounded(tensor)
    wide.narrow = None
    while isinstance(wide.definition, Move):
        wide = wide.definition.source
        wide.narrow = None


def multiplied(a: TensorView, b: TensorView) -> TensorView:
    """The elementwise product, in the type that sums of such products have."""
    wide = a.dtype.compute
    return tensor_of("mul", converted_tensor(a, wide), converted_tensor(b, wide))


def summed(a: TensorView, b: TensorView, dims: int | Sequence[int]) -> TensorView:
    """The elementwise product summed over dimensions, which holds all products with vectors."""
    product = multiplied(a, b)
    total = reductions.sum(product, dims, dtype=product.dtype)
    return rounded(total, result_of(a.dtype))


def product(
    op: str,
    a: TensorView,
    b: TensorView,
    axes: tuple[tuple[int, ...], tuple[int, ...]],
    precision: Precision = "exact",
    ends: TensorView | None = None,
) -> TensorView:
    """A `Matmul` and the cast to the type of its result, or a reduction; `axes` and `ends` as
    there.
    """
    last = max(axes[0])
    walked = [
        {p for p, axis in zip(own, t.shape_axes, strict=True) if not axis.is_broadcast}
        for t, own in zip((a, b), axes, strict=True)
    ]
    if (walked[0] <= walked[1] or walked[1] <= walked[0]) and not _has_narrow_rows(a, b, axes):
        return summed(spread(a, axes[0], last), spread(b, axes[1], last), last)
    if a is b:  # an operation knows its operands' axes by tensor
        b = copy(b)
    root = [
        _joined(
            op, [(t, own.index(place)) for t, own in zip((a, b), axes, strict=True) if place in own]
        )
        for place in range(last)
    ]
    inner = _extent(op, [(t, own.index(last)) for t, own in zip((a, b), axes, strict=True)])
    output = Fusion.of(a).tensor(a.dtype.compute, (*root, IterDomain(inner, IterType.reduction)))
    Fusion.of(a).append(Matmul(a, b, output, axes, precision, ends))
    return rounded(output, result_of(a.dtype))


def _has_narrow_rows(
    a: TensorView, b: TensorView, axes: tuple[tuple[int, ...], tuple[int, ...]]
) -> bool:
    """Whether one operand is one row, of two dimensions or more, and the other is computed of fewer
    bytes, in the order of the products: tensor cores are faster than sums then, where calls fit
    (`ops/single_rows.py`).
    """
    last = max(axes[0])
    for row, other, own, others in ((a, b, axes[0], axes[1]), (b, a, axes[1], axes[0])):
        alone = [d for d, place in enumerate(own) if place not in others]
        single = bool(alone) and all(row.shape_axes[d].is_broadcast for d in alone)
        if single and others[-1] == last and narrow_inputs(other):
            return True
    return False


def spread(tensor: TensorView, own: Sequence[int], last: int) -> TensorView:
    """An operand with all dimensions of a product up to `last`, 1 for those that it lacks."""
    order = sorted(range(len(own)), key=own.__getitem__)
    arranged = tensor if order == [*range(len(own))] else permute(tensor, order)
    return add_axes(arranged, [place not in own for place in range(last + 1)])


def _joined(op: str, members: Sequence[tuple[TensorView, int]]) -> IterDomain:
    """A new axis like those of the operands that have it; 1 is broadcast."""
    concrete = [(t, d) for t, d in members if not t.shape_axes[d].is_broadcast]
    return axis_of(_extent(op, concrete or members))


def _extent(op: str, members: Sequence[tuple[TensorView, int]]) -> Expr:
    """The extent that equal dimensions have: a constant if one is."""
    known = [(t, d) for t, d in members if isinstance(t.shape_axes[d].extent, Const)]
    for tensor, d in known[1:]:
        check_equal(
            op,
            known[0],
            (tensor, d),
            why="batches must be equal, or 1 where an operand is to be broadcast",
        )
    tensor, d = (known or members)[0]
    return tensor.shape_axes[d].extent
