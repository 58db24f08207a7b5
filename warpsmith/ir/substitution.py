"""Expressions with parts of them replaced."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr

_OF_SIZES: dict[str, Callable[..., Expr]] = {
    "add": integers.add,
    "mul": integers.mul,
    "floordiv": integers.floordiv,
    "mod": integers.mod,
    "ceildiv": integers.ceildiv,
    "minimum": integers.minimum,
    "maximum": integers.maximum,
}


def substitute(expr: Expr, mapping: dict[Expr, Expr]) -> Expr:
    """`expr` with nodes replaced; integer operations are simplified again."""
    found = mapping.get(expr)
    if found is not None:
        return found
    if not isinstance(expr, Apply):
        return expr
    args = tuple([substitute(arg, mapping) for arg in expr.args])
    if all(map(operator.is_, args, expr.args)):
        return expr
    return rebuild(expr.op, args, expr.dtype)


def at_least(expr: Expr, sizes: Mapping[Expr, Expr]) -> Expr:
    """An index that `expr` is no less than, where sizes are no less than given ones: these, in what
    grows with them. What a size divides, or is taken from, does not.
    """
    found = sizes.get(expr)
    if found is not None:
        return found
    if not isinstance(expr, Apply) or not _grows(expr):
        return expr
    return rebuild(expr.op, tuple(at_least(arg, sizes) for arg in expr.args), expr.dtype)


def _grows(made: Apply) -> bool:
    """Whether an operation grows with each of its operands that is no constant."""
    if made.op in ("floordiv", "ceildiv"):
        return isinstance(made.args[1], Const)
    negative = any(isinstance(arg, Const) and arg.value < 0 for arg in made.args)
    return made.op in ("add", "minimum", "maximum") or (made.op == "mul" and not negative)


def rebuild(op: str, args: tuple[Expr, ...], dtype: DataType) -> Expr:
    """The simplifying constructor of an operation, by name."""
    if dtype is DataType.Index and op in _OF_SIZES:
        return _OF_SIZES[op](*args)
    if op == "lt" and args[0].dtype is DataType.Index:
        return integers.less(*args)
    return Apply(op, args, dtype)
