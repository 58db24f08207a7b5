"""Divide by launch constants with a multiplication."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES, GRID_TYPES
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.kernel.clusters import RANK
from warpsmith.kernel.kernel import Kernel, Reciprocal
from warpsmith.kernel.nodes import For, Let
from warpsmith.kernel.traversal import defined, map_expressions, map_parts, walk


def multiply_divisions(kernel: Kernel) -> Kernel:
    """Replace `x / d` and `x % d` where `d` is the same for the whole launch.

    A runtime division takes some twenty instructions, which a thread that moves 16 bytes cannot
    hide (docs/lessons/pointwise.md: up to 6 %). The launch computes a magic number and a shift for
    each divisor. Only for 32-bit indices, whose dividends are below 2**31.

    Before::

        row = m / T0_size1;  column = m % T0_size1

    After::

        row = divide(m, T0_size1, magic0, shift0);  column = m - T0_size1 * row
    """
    if kernel.index_type is not DataType.Int32:
        return kernel
    varying = {RANK, *(kind.name for kind in (*GRID_TYPES, *BLOCK_TYPES))}
    varying |= {s.symbol.name for s in walk(kernel.body) if isinstance(s, For)}
    for each in walk(kernel.body):
        if isinstance(each, Let) and _varies(each.value, varying):
            varying.add(each.symbol.name)
    inner = varying | {symbol.name for s in walk(kernel.body) for symbol in defined(s)}
    made: dict[Expr, Reciprocal] = {}

    @cache
    def rewrite(expr: Expr) -> Expr:
        return _rewrite(expr, varying, inner, made)

    body = tuple(map_expressions(statement, rewrite) for statement in kernel.body)
    return replace(kernel, body=body, reciprocals=tuple(made.values())) if made else kernel


def _rewrite(expr: Expr, varying: set[str], inner: set[str], made: dict[Expr, Reciprocal]) -> Expr:
    """`varying` names what differs from thread to thread; `inner` what no launch knows."""
    new = map_parts(expr, lambda part: _rewrite(part, varying, inner, made))
    if not (isinstance(expr, Apply) and _is_division(expr)):
        return new
    if _varies(expr.args[0], varying) and not _varies(new.args[1], inner):
        dividend, divisor = new.args
        reciprocal = made.get(divisor)
        if reciprocal is None:
            reciprocal = made[divisor] = _reciprocal(divisor, len(made))
        operands = (dividend, divisor, reciprocal.magic, reciprocal.shift)
        quotient = Apply("divide", operands, DataType.Index)
        if expr.op == "floordiv":
            return quotient
        return integers.sub(dividend, integers.mul(quotient, divisor))
    return new


def _is_division(expr: Apply) -> bool:
    return (
        expr.op in ("floordiv", "mod")
        and expr.dtype is DataType.Index
        and not isinstance(expr.args[1], Const)
    )


def _varies(expr: Expr, varying: set[str]) -> bool:
    return any(isinstance(node, Symbol) and node.name in varying for node in expr.walk())


def _reciprocal(divisor: Expr, number: int) -> Reciprocal:
    magic = Symbol(f"magic{number}", DataType.Int32)
    shift = Symbol(f"shift{number}", DataType.Int32)
    return Reciprocal(divisor, magic, shift)
