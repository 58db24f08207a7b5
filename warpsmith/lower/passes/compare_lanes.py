"""Lanes of rows that begin anywhere compare one difference with numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.polynomials import expression, polynomial
from warpsmith.ir.scalar import Apply, Expr, Symbol
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Statement
from warpsmith.kernel.reductions import WelfordStep
from warpsmith.kernel.traversal import map_bodies
from warpsmith.lower.passes.peel_ends import is_begin, is_end


def compare_lanes(kernel: Kernel) -> Kernel:
    """Bring what differs from lane to lane to one side of what they ask of their places, so that
    the other side is computed once, and each lane compares it with a number.

    Before::

        for j < 8 unrolled: if (h < 8*(v % m) + j + 1 && 8*(v % m) + j < n + h) ..

    After::

        for j < 8 unrolled: if (h - 8*(v % m) < j + 1 && 8*(v % m) - n - h < -j) ..
    """
    return kernel.with_body(_within(kernel.body, frozenset()))


def _within(statements: tuple[Statement, ...], lanes: frozenset[Symbol]) -> tuple[Statement, ...]:
    def change(condition: Expr) -> Expr:
        asked = integers.conjuncts(condition)
        return integers.conjunction(*(_by_lanes(each, lanes) for each in asked))

    return tuple(_changed(statement, lanes, change) for statement in statements)


def _changed(
    statement: Statement, lanes: frozenset[Symbol], change: Callable[[Expr], Expr]
) -> Statement:
    if isinstance(statement, WelfordStep) and statement.inside:
        return replace(statement, inside=tuple(map(change, statement.inside)))
    if isinstance(statement, For) and statement.unroll:
        lanes |= {statement.symbol}
    made = map_bodies(statement, lambda body: _within(body, lanes))
    return replace(made, condition=change(made.condition)) if isinstance(made, If) else made


def _by_lanes(condition: Expr, lanes: frozenset[Symbol]) -> Expr:
    if not ((is_begin(condition) or is_end(condition)) and isinstance(condition, Apply)):
        return condition
    terms = polynomial(integers.sub(*condition.args))
    own = {m: -c for m, c in terms.items() if not m or (len(m) == 1 and m[0] in lanes)}
    rest = {m: c for m, c in terms.items() if m not in own}
    return Apply("lt", (expression(rest), expression(own)), DataType.Bool)
