"""Name index subexpressions that divide or search, outside the loops that they do not depend on."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Expr, Symbol
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Element, Let, Statement
from warpsmith.kernel.traversal import defined, expressions, map_bodies, map_expressions, walk

COSTLY = ("floordiv", "mod", "ceildiv", "divide", "group", "group_end")


def hoist_indices(kernel: Kernel) -> Kernel:
    """Compute each division or remainder of an index once, as far out as its operands allow.

    Before::

        for i0: { T1[i0] = T0[(t + 256*i0) % N];  ... ((t + 256*i0) % N) ... }

    After::

        for i0: { const int x0 = (t + 256*i0) % N;  T1[i0] = T0[x0];  ... x0 ... }

    Each role counts its own threads, so what depends on them stays in its branch; what depends on
    sizes alone does not.
    """
    names = _Names()
    body = _hoist(kernel.body, names)
    return replace(kernel, body=body) if names.used else kernel


_Divisions = tuple[tuple[Expr, frozenset[str]], ...]
"""Divisions and remainders in an expression, inner ones first, with the symbols in each."""


class _Names:
    """Hands out names for hoisted values, and knows which there may be: an expression is asked at
    every level of loops around it.
    """

    def __init__(self) -> None:
        self.used = 0
        self._divisions: dict[Expr, _Divisions] = {}

    def divisions(self, expr: Expr) -> _Divisions:
        """Those in an expression."""
        known = self._divisions.get(expr)
        if known is None:
            known = tuple([each for arg in expr.args for each in self.divisions(arg)])
            if isinstance(expr, Apply) and expr.op in COSTLY and expr.dtype is DataType.Index:
                symbols = frozenset(n.name for n in expr.walk() if isinstance(n, Symbol))
                known += ((expr, symbols),)
            self._divisions[expr] = known
        return known

    def fresh(self) -> Symbol:
        symbol = Symbol(f"x{self.used}", low=0)
        self.used += 1
        return symbol


def _hoist(statements: tuple[Statement, ...], names: _Names) -> tuple[Statement, ...]:
    """Hoist what depends on nothing in these statements; deeper things are left to deeper calls."""
    inner = _inner_symbols(statements)
    found: dict[Expr, None] = {}
    for statement in statements:
        for expr in _all_expressions(statement):
            for division, symbols in names.divisions(expr):
                if symbols.isdisjoint(inner):
                    found.setdefault(division)
    lets: list[Statement] = []
    mapping: dict[Expr, Expr] = {}
    for expr in found:
        symbol = names.fresh()
        lets.append(Let(symbol, _replace(expr, mapping)))
        mapping[expr] = symbol
    rewritten = statements
    if mapping:

        def named(expr: Expr) -> Expr:
            hoisted = any(division in mapping for division, _ in names.divisions(expr))
            return _replace(expr, mapping) if hoisted else expr

        rewritten = tuple(map_expressions(statement, named) for statement in statements)
    return (*lets, *(map_bodies(s, lambda body: _hoist(body, names)) for s in rewritten))


def _inner_symbols(statements: tuple[Statement, ...]) -> frozenset[str]:
    """Names that get a value inside these statements: loops, flags, places in rings, and so on."""
    return frozenset(symbol.name for s in walk(statements) for symbol in defined(s))


def _all_expressions(statement: Statement) -> tuple[Expr, ...]:
    return tuple(expr for inner in walk((statement,)) for expr in expressions(inner))


def _replace(expr: Expr, mapping: dict[Expr, Expr]) -> Expr:
    """Replace without simplifying again: the expressions are already in simplest form."""
    if not mapping:
        return expr
    found = mapping.get(expr)
    if found is not None:
        return found
    if isinstance(expr, Element):
        index = _replace(expr.index, mapping)
        return expr if index is expr.index else Element(expr.buffer, index)
    if isinstance(expr, Apply):
        args = tuple(_replace(arg, mapping) for arg in expr.args)
        if all(new is old for new, old in zip(args, expr.args, strict=True)):
            return expr
        return Apply(expr.op, args, expr.dtype)
    return expr
