"""Matrix products, with PyTorch's shapes and types; products are summed in Float.

The operands are read as they were rounded: what tensor cores multiply has 16 bits. The result is
rounded implicitly, so what is computed from it reads the Float sums.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.errors import DefinitionError
from warpsmith.ir.domains import IterDomain, IterType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Matmul
from warpsmith.ir.scalar import Const, Expr
from warpsmith.ir.tensor import TensorView
from warpsmith.ops import reductions
from warpsmith.ops.broadcasting import add_axes, axis_of
from warpsmith.ops.elementwise import apply
from warpsmith.ops.pointwise import set as copy
from warpsmith.ops.promotion import rounded
from warpsmith.ops.shape import transpose
from warpsmith.ops.values import as_tensor, fusion_of

_TYPES = (DataType.Half, DataType.BFloat16, DataType.Float)


def matmul(a: TensorView, b: TensorView) -> TensorView:
    """The matrix product of `a [..., m, k]` and `b [..., k, n]`: `[..., m, n]`, of their type.

    Dimensions before the last two are batches, broadcast as those of pointwise operations. An
    operand of one dimension has `k` alone, and the result lacks its `m` or `n`.
    """
    a, b = _operands("matmul", a, b)
    rows, inner = a.rank - 2, max(b.rank - 2, 0)
    _check_sums("matmul", (a, a.rank - 1), (b, inner))
    if a.rank == 1 or b.rank == 1:
        column = a if b.rank == 1 else add_axes(a, (False, True))
        return reductions.sum(_multiplied(column, b), -1 if b.rank == 1 else -2)
    if a.shape_axes[-1].is_broadcast:
        return _multiplied(a, b)
    batches = max(rows, inner)
    m, n, k = batches, batches + 1, batches + 2
    own = (*range(batches - rows, batches), m, k), (*range(batches - inner, batches), k, n)
    return _product("matmul", a, b, own)


def linear(x: TensorView, weight: TensorView, bias: TensorView | None = None) -> TensorView:
    """`x [..., k]` times the transpose of `weight [n, k]`, plus `bias [n]`: `[..., n]`.

    A weight of one dimension, `[k]`, takes a bias of none, and the result is `[...]`.
    """
    x, weight = _operands("linear", x, weight)
    if weight.rank > 2:
        raise DefinitionError(
            f"linear got the weight {weight.name} of {weight.rank} dimensions",
            code="WS0143",
            remedy="a weight is [n, k] or [k]; use matmul for batches",
        )
    _check_sums("linear", (x, x.rank - 1), (weight, weight.rank - 1))
    if x.rank == 1 or weight.rank == 1:
        result = reductions.sum(_multiplied(x, weight), -1)
    elif x.shape_axes[-1].is_broadcast:
        result = _multiplied(x, transpose(weight))
    else:
        n, k = x.rank - 1, x.rank
        result = _product("linear", x, weight, ((*range(n), k), (n, k)))
    return result if bias is None else _biased(result, weight, bias)


def _operands(op: str, a: object, b: object) -> tuple[TensorView, TensorView]:
    """Both as tensors of one fusion and of one type that products take, with dimensions."""
    first, second = as_tensor(a, op), as_tensor(b, op)
    fusion_of((first, second), op)
    for tensor in (first, second):
        if not tensor.rank:
            raise DefinitionError(
                f"{op} got {tensor.name}, which has no dimensions",
                code="WS0143",
                remedy="operands have at least one dimension; use mul for scalars",
            )
        if tensor.dtype not in _TYPES:
            raise DefinitionError(
                f"{op} does not take operands of type {tensor.dtype.name}",
                code="WS0118",
                remedy=f"cast to one of {', '.join(dtype.name for dtype in _TYPES)}",
            )
    _check_equal_types(op, first, second)
    return first, second


def _check_equal_types(op: str, a: TensorView, b: TensorView) -> None:
    if a.dtype is not b.dtype:
        raise DefinitionError(
            f"{op} got {a.name} of type {a.dtype.name} and {b.name} of type {b.dtype.name}",
            code="WS0142",
            remedy="cast one of them: products do not promote",
        )


def _check_sums(op: str, *dims: tuple[TensorView, int]) -> None:
    """DefinitionError unless the dimensions that are summed over are equal, as far as is known.

    They are not broadcast: one that is 1 by definition meets only another one.
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
        remedy="the dimensions that a product sums over must be equal; none is broadcast",
    )


def _multiplied(a: TensorView, b: TensorView) -> TensorView:
    """The elementwise product, which holds all products where nothing, or a vector, is summed."""
    result = apply("mul", a, b)
    assert isinstance(result, TensorView)
    return result


def _product(
    op: str, a: TensorView, b: TensorView, axes: tuple[tuple[int, ...], tuple[int, ...]]
) -> TensorView:
    """A `Matmul` and the cast to its operands' type; `axes` as there."""
    if a is b:  # an operation knows its operands' axes by tensor
        b = copy(b)
    last = max(axes[0])
    root = [
        _joined(
            op, [(t, own.index(place)) for t, own in zip((a, b), axes, strict=True) if place in own]
        )
        for place in range(last)
    ]
    inner = _extent(op, [(t, own.index(last)) for t, own in zip((a, b), axes, strict=True)])
    output = a.fusion.tensor(DataType.Float, (*root, IterDomain(inner, IterType.reduction)))
    a.fusion.append(Matmul(a, b, output, axes))
    return rounded(output, a.dtype)


def _joined(op: str, members: Sequence[tuple[TensorView, int]]) -> IterDomain:
    """A new axis like those of the operands that have it; 1 is broadcast."""
    concrete = [(t, d) for t, d in members if not t.shape_axes[d].is_broadcast]
    return axis_of(_extent(op, concrete or members))


def _extent(op: str, members: Sequence[tuple[TensorView, int]]) -> Expr:
    """The extent that equal dimensions have: a constant if one is."""
    known = [(t, d) for t, d in members if isinstance(t.shape_axes[d].extent, Const)]
    for tensor, d in known[1:]:
        first, of_first = known[0]
        extents = first.shape_axes[of_first].extent, tensor.shape_axes[d].extent
        if extents[0] != extents[1]:
            raise DefinitionError(
                f"{op}: dimension {of_first} of {first.name} has extent {extents[0]!r} and "
                f"dimension {d} of {tensor.name} has {extents[1]!r}",
                code="WS0144",
                remedy="batches must be equal, or 1 where an operand is to be broadcast",
            )
    tensor, d = (known or members)[0]
    return tensor.shape_axes[d].extent


def _biased(result: TensorView, weight: TensorView, bias: TensorView) -> TensorView:
    given = as_tensor(bias, "linear")
    _check_equal_types("linear", weight, given)
    if given.rank != weight.rank - 1:
        raise DefinitionError(
            f"linear got the bias {given.name} of {given.rank} dimensions for the weight "
            f"{weight.name} of {weight.rank}",
            code="WS0143",
            remedy="a bias has one dimension less than the weight",
        )
    if given.rank and weight.shape_axes[0].is_broadcast and not given.shape_axes[0].is_broadcast:
        raise DefinitionError(
            f"linear: dimension 0 of {weight.name} is 1 and that of the bias {given.name} has "
            f"extent {given.shape_axes[0].extent!r}",
            code="WS0144",
            remedy="a bias has as many elements as the weight has rows",
        )
    total = apply("add", result, given)
    assert isinstance(total, TensorView)
    return total
