"""Matrix products, with PyTorch's shapes and types.

Halves, floats and doubles give their own type, summed in Float or Double; integers wrap in theirs.
Unlike PyTorch's, products of 8-bit floats give Float, of both types mixed too, and of bytes Int32.
`dtype` asks for another type. With `precision` "tf32" a kernel may round Float operands to 11 bits
before it multiplies them, with "fast" sum 8-bit floats as tensor cores do, with 13 bits behind the
point; one that does not satisfies it as well.
"""

from __future__ import annotations

from warpsmith.errors import DefinitionError
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Precision
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Const
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.broadcasting import add_axes
from warpsmith.ops.contraction import (
    check_equal,
    check_rank,
    finished,
    keep_wide,
    multiplied,
    operands,
    product,
    result_of,
    summed,
)
from warpsmith.ops.elementwise import tensor_of
from warpsmith.ops.factories import full
from warpsmith.ops.promotion import rounded
from warpsmith.ops.shape import broadcast, transpose
from warpsmith.ops.values import Scalar, as_scalar, as_tensor, fusion_of

_SUMS = "the dimensions that a product sums over must be equal; none is broadcast"


def matmul(
    a: TensorView,
    b: TensorView,
    *,
    dtype: DataType | None = None,
    precision: Precision = "exact",
) -> TensorView:
    """The matrix product of `a [..., m, k]` and `b [..., k, n]`: `[..., m, n]`.

    Dimensions before the last two are batches, broadcast as those of pointwise operations. An
    operand of one dimension has `k` alone, and the result lacks its `m` or `n`.
    """
    a, b = operands("matmul", a, b, precision=precision)
    _check_dimensions("matmul", a, b)
    return finished("matmul", _matrices("matmul", a, b, precision), dtype)


def linear(
    x: TensorView,
    weight: TensorView,
    bias: TensorView | None = None,
    *,
    dtype: DataType | None = None,
    precision: Precision = "exact",
) -> TensorView:
    """`x [..., k]` times the transpose of `weight [n, k]`, plus `bias [n]`: `[..., n]`.

    A weight of one dimension, `[k]`, takes a bias of none, and the result is `[...]`.
    """
    x, weight = operands("linear", x, weight, precision=precision)
    _check_dimensions("linear", x, weight)
    if weight.rank > 2:
        raise DefinitionError(
            f"linear got the weight {weight.name} of {weight.rank} dimensions",
            code="WS0143",
            remedy="a weight is [n, k] or [k]; use matmul for batches",
        )
    check_equal("linear", (x, x.rank - 1), (weight, weight.rank - 1), why=_SUMS)
    if x.rank == 1 or weight.rank == 1:
        result = summed(x, weight, -1)
    elif x.shape_axes[-1].is_broadcast:
        result = rounded(multiplied(x, transpose(weight)), result_of(x.dtype))
    else:
        n, k = x.rank - 1, x.rank
        result = product("linear", x, weight, ((*range(n), k), (n, k)), precision)
    return finished("linear", result if bias is None else _biased(result, weight, bias), dtype)


def bmm(
    a: TensorView,
    b: TensorView,
    *,
    dtype: DataType | None = None,
    precision: Precision = "exact",
) -> TensorView:
    """The products of `a [b, m, k]` and `b [b, k, n]`: `[b, m, n]`; no batch is broadcast."""
    return finished("bmm", _batches("bmm", a, b, precision), dtype)


def addmm(
    input: TensorView,
    a: TensorView,
    b: TensorView,
    beta: Scalar = 1,
    alpha: Scalar = 1,
    *,
    dtype: DataType | None = None,
    precision: Precision = "exact",
) -> TensorView:
    """`beta * input + alpha * (a @ b)` of matrices; `input` is broadcast to `[m, n]`.

    It has the type of the product. A `beta` or `alpha` of 0 leaves out what it multiplies.
    """
    first, second = operands("addmm", a, b, precision=precision)
    for tensor in (first, second):
        check_rank("addmm", tensor, 2)
    made = _matrices("addmm", first, second, precision)
    return finished("addmm", _added("addmm", input, made, beta, alpha), dtype)


def baddbmm(
    input: TensorView,
    a: TensorView,
    b: TensorView,
    beta: Scalar = 1,
    alpha: Scalar = 1,
    *,
    dtype: DataType | None = None,
    precision: Precision = "exact",
) -> TensorView:
    """`addmm` of batches: `beta * input + alpha * bmm(a, b)`."""
    made = _batches("baddbmm", a, b, precision)
    return finished("baddbmm", _added("baddbmm", input, made, beta, alpha), dtype)


def dot(a: TensorView, b: TensorView, *, dtype: DataType | None = None) -> TensorView:
    """The sum of products of two vectors `[k]`, without dimensions."""
    first, second = operands("dot", a, b)
    for tensor in (first, second):
        check_rank("dot", tensor, 1)
    return finished("dot", _matrices("dot", first, second), dtype)


def mv(a: TensorView, x: TensorView, *, dtype: DataType | None = None) -> TensorView:
    """The product of the matrix `a [m, k]` and the vector `x [k]`: `[m]`."""
    first, second = operands("mv", a, x)
    check_rank("mv", first, 2)
    check_rank("mv", second, 1)
    return finished("mv", _matrices("mv", first, second), dtype)


def outer(a: TensorView, b: TensorView, *, dtype: DataType | None = None) -> TensorView:
    """All products of elements of `a [m]` and `b [n]`: `[m, n]`, typed as those of `mul`."""
    first, second = as_tensor(a, "outer"), as_tensor(b, "outer")
    for tensor in (first, second):
        check_rank("outer", tensor, 1)
    return finished("outer", tensor_of("mul", broadcast(first, (False, True)), second), dtype)


def _check_dimensions(op: str, *tensors: TensorView) -> None:
    for tensor in tensors:
        if not tensor.rank:
            raise DefinitionError(
                f"{op} got {tensor.name}, which has no dimensions",
                code="WS0143",
                remedy="operands have at least one dimension; use mul for scalars",
            )


def _matrices(op: str, a: TensorView, b: TensorView, precision: Precision = "exact") -> TensorView:
    """`matmul` of checked operands, in the type of their product."""
    rows, inner = a.rank - 2, max(b.rank - 2, 0)
    check_equal(op, (a, a.rank - 1), (b, inner), why=_SUMS)
    if a.rank == 1 or b.rank == 1:
        column = a if b.rank == 1 else add_axes(a, (False, True))
        return summed(column, b, -1 if b.rank == 1 else -2)
    if a.shape_axes[-1].is_broadcast:
        return rounded(multiplied(a, b), result_of(a.dtype))
    batches = max(rows, inner)
    m, n, k = batches, batches + 1, batches + 2
    own = (*range(batches - rows, batches), m, k), (*range(batches - inner, batches), k, n)
    return product(op, a, b, own, precision)


def _batches(op: str, a: TensorView, b: TensorView, precision: Precision) -> TensorView:
    first, second = operands(op, a, b, precision=precision)
    for tensor in (first, second):
        check_rank(op, tensor, 3)
    check_equal(op, (first, 0), (second, 0), why="batches must be equal; matmul broadcasts them")
    return _matrices(op, first, second, precision)


def _added(op: str, given: TensorView, made: TensorView, beta: Scalar, alpha: Scalar) -> TensorView:
    """`beta * given + alpha * made`, of the type and shape of `made`."""
    addend = as_tensor(given, op)
    fusion_of((addend, made), op)
    _check_added_type(op, addend, made)
    _check_broadcast(op, addend, made)
    first, second = _scaled(op, "beta", addend, beta), _scaled(op, "alpha", made, alpha)
    if second is None:  # not even its NaNs count
        shape = [axis.extent for axis in made.shape_axes]
        second = full(shape, 0, made.dtype, fusion=Fusion.of(made))
    if first is None:
        if second is not made:
            keep_wide(made)
        return second
    for part in (made, second, first):
        if part is not addend:
            keep_wide(part)
    return tensor_of("add", second, first)


def _scaled(op: str, name: str, tensor: TensorView, factor: Scalar) -> TensorView | None:
    """The tensor times a number; None for a number that is known to be 0."""
    number = as_scalar(factor, op)
    if number.dtype.is_float and not tensor.dtype.is_float:
        raise DefinitionError(
            f"{op} got {name} {factor!r} for a product of type {tensor.dtype.name}",
            code="WS0146",
            remedy="integers take whole numbers; cast the operands to a float",
        )
    if isinstance(number, Const) and number.value in (0, 1):
        return tensor if number.value else None
    return tensor_of("mul", tensor, number)


def _check_added_type(op: str, addend: TensorView, made: TensorView) -> None:
    if addend.dtype is not made.dtype:
        raise DefinitionError(
            f"{op} adds {addend.name} of type {addend.dtype.name} to a product of type "
            f"{made.dtype.name}",
            code="WS0142",
            remedy="cast it: products do not promote",
        )


def _check_broadcast(op: str, addend: TensorView, made: TensorView) -> None:
    """DefinitionError where the addend would widen the product."""
    if addend.rank > made.rank:
        raise DefinitionError(
            f"{op} got {addend.name} of {addend.rank} dimensions for a product of {made.rank}",
            code="WS0143",
            remedy="what is added has no more dimensions than the product",
        )
    for d, axis in enumerate(addend.shape_axes):
        other = made.shape_axes[d + made.rank - addend.rank]
        if other.is_broadcast and not axis.is_broadcast:
            raise DefinitionError(
                f"{op}: dimension {d} of {addend.name} has extent {axis.extent!r}, and that of "
                "the product is 1",
                code="WS0144",
                remedy="what is added is broadcast to the product, not the product to it",
            )


def _biased(result: TensorView, weight: TensorView, bias: TensorView) -> TensorView:
    given = as_tensor(bias, "linear")
    fusion_of((given, result), "linear")
    _check_added_type("linear", given, result)
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
    keep_wide(result)
    return tensor_of("add", result, given)
