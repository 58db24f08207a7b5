"""Scalar arithmetic on any type: what Python's operators on expressions, and `ops`, build.

Sums, products and divisions of sizes stay in the index type, where `ir/integers.py` simplifies
them and shapes can be compared; everything else is computed in the type that the caller names.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from warpsmith.errors import DefinitionError
from warpsmith.ir import integers
from warpsmith.ir.bounds import lower_bound
from warpsmith.ir.dtypes import DataType, result_type
from warpsmith.ir.polynomials import polynomial
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol, literal

_INDEX: dict[str, Callable[..., Expr]] = {
    "add": integers.add,
    "sub": integers.sub,
    "mul": integers.mul,
    "minimum": integers.minimum,
    "maximum": integers.maximum,
}
_INDEX_DIVISION: dict[str, Callable[[Expr, Expr], Expr]] = {
    "div": integers.floordiv,
    "fmod": integers.mod,
    "mod": integers.mod,
    "remainder": integers.mod,
}
_COMPARISONS = ("lt", "le", "gt", "ge")


def apply(op: str, args: tuple[Expr, ...], compute: tuple[DataType, ...], result: DataType) -> Expr:
    """`op` of scalars, each converted to its type in `compute`; sizes stay sizes where they can."""
    if any(arg.dtype is DataType.Index for arg in args) and all(map(_is_index, args)):
        sizes = tuple(convert(arg, DataType.Index) for arg in args)
        if op in _INDEX:
            return _INDEX[op](*sizes)
        positive = lower_bound(sizes[0]) >= 0 and lower_bound(sizes[-1]) >= 0
        if op in _INDEX_DIVISION and positive and sizes[1] != integers.ZERO:
            return _INDEX_DIVISION[op](*sizes)
    operands = tuple(convert(arg, dtype) for arg, dtype in zip(args, compute, strict=True))
    return Apply(op, operands, result)


def convert(expr: Expr, dtype: DataType) -> Expr:
    """`expr` as a value of type `dtype`; constants are converted here and now.

    A negative one wraps where the type has no signs, as PyTorch's numbers do.

    Raises DefinitionError for a constant that the type cannot hold.
    """
    if expr.dtype is dtype:
        return expr
    if not isinstance(expr, Const):
        wide = _whole(expr) if expr.dtype is DataType.Index and not _counts(expr) else expr
        return wide if wide.dtype is dtype else Apply("cast", (wide,), dtype)
    if dtype is DataType.Bool:
        return Const(bool(expr.value), dtype)
    if dtype.is_float:
        return Const(float(expr.value), dtype)
    held = dtype.numbers
    try:
        number = int(expr.value)
    except (OverflowError, ValueError):
        number = held.stop
    if not dtype.is_signed and -number in held:
        number %= held.stop
    if number not in held:
        raise DefinitionError(
            f"the constant {expr.value!r} is outside the range of {dtype.name}",
            code="WS0111",
            remedy="use a smaller number or a wider type",
        )
    return Const(number, dtype)


def counted(count: Expr, dtype: DataType) -> Expr:
    """How many elements are reduced, which indices hold, as a value of a type."""
    return convert(count, dtype) if isinstance(count, Const) else Apply("cast", (count,), dtype)


_FEW = 2**20
"""More or less of elements than a tensor has, by which indices do not overflow."""


def _counts(expr: Expr) -> bool:
    """Whether an expression of sizes counts elements of a tensor, or less: indices hold these."""
    if isinstance(expr, Apply) and expr.op in ("floordiv", "mod", "ceildiv", "minimum"):
        return all(map(_counts, expr.args))
    found = dict(polynomial(expr))
    more, terms = found.pop((), 0), [*found.items()]
    if abs(more) > _FEW or len(terms) > 1 or any(often != 1 for _, often in terms):
        return False
    factors = terms[0][0] if terms else ()
    if len(factors) == 1 and isinstance(factors[0], Apply) and factors[0] != expr:
        return _counts(factors[0])
    if not all(isinstance(f, Symbol) and f.dtype is DataType.Index for f in factors):
        return False
    tensors = {f.name.partition("_size")[0] for f in factors if isinstance(f, Symbol)}
    return len(set(factors)) == len(factors) and len(tensors) < 2


def _whole(expr: Expr) -> Expr:
    """A number of the index type as Int: what numbers beside tensors say may go beyond indices."""
    if isinstance(expr, Const) or not isinstance(expr, Apply) or _counts(expr):
        return convert(expr, DataType.Int)
    if expr.op == "cast":
        return convert(expr.args[0], DataType.Int)
    args = [*map(_whole, expr.args)]
    op = "div" if expr.op == "floordiv" else expr.op
    if op not in ("add", "mul", "div", "mod", "minimum", "maximum"):
        return Apply("cast", (expr,), DataType.Int)
    return reduce(lambda a, b: Apply(op, (a, b), DataType.Int), args)


def reciprocal(expr: Expr) -> Expr:
    """One over a float; a constant's here and now."""
    if isinstance(expr, Const) and expr.value:
        return Const(1 / float(expr.value), expr.dtype)
    return Apply("reciprocal", (expr,), expr.dtype)


def operator(op: str, *operands: Expr | float) -> Expr:
    """`op` as Python's operators on scalars mean it: `floordiv` rounds down, `truediv` is exact."""
    if op == "floordiv":
        return _floordiv(*operands)
    args = tuple(x if isinstance(x, Expr) else literal(x) for x in operands)
    types = tuple(DataType.Int if a.dtype is DataType.Index else a.dtype for a in args)
    common = result_type((), (), types)
    if op == "truediv" and not common.is_float:
        common = DataType.Double
    result = DataType.Bool if op in _COMPARISONS else common
    return apply(op, args, (common,) * len(args), result)


Expr.operator = operator


def _floordiv(a: Expr | float, b: Expr | float) -> Expr:
    quotient = operator("div", a, b)
    if quotient.dtype is DataType.Index:
        return quotient
    if quotient.dtype.is_float:
        return Apply("floor", (quotient,), quotient.dtype)
    return operator("div", operator("sub", a, operator("remainder", a, b)), b)


def _is_index(expr: Expr) -> bool:
    return expr.dtype is DataType.Index or (
        isinstance(expr, Const) and expr.dtype in (DataType.Int, DataType.Int32)
    )
