"""Expressions with parts of them replaced."""

from __future__ import annotations

import operator
from collections.abc import Callable

from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Expr

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


def rebuild(op: str, args: tuple[Expr, ...], dtype: DataType) -> Expr:
    """The simplifying constructor of an operation, by name."""
    if dtype is DataType.Index and op in _OF_SIZES:
        return _OF_SIZES[op](*args)
    if op == "lt" and args[0].dtype is DataType.Index:
        return integers.less(*args)
    return Apply(op, args, dtype)
