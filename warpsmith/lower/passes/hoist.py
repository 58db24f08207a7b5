"""Name index subexpressions that divide or search, outside the loops that they do not depend on."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.ir.bounds import LOOKUPS
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Expr, Symbol
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Let, Statement
from warpsmith.kernel.traversal import (
    children,
    defined,
    expressions,
    map_bodies,
    map_expressions,
    map_parts,
    reads_memory,
)
from warpsmith.values import dataclass

COSTLY = ("floordiv", "mod", "ceildiv", "divide", *LOOKUPS)


def hoist_indices(kernel: Kernel) -> Kernel:
    """Compute each division or remainder of an index once, as far out as its operands allow.

    Before::

        for i0: { T1[i0] = T0[(t + 256*i0) % N];  ... ((t + 256*i0) % N) ... }

    After::

        for i0: { const int x0 = (t + 256*i0) % N;  T1[i0] = T0[x0];  ... x0 ... }

    Each role counts its own threads, so what depends on them stays in its branch; what depends on
    sizes alone does not. What depends on elements of memory stays where they are read, behind the
    stores before and inside the predicates around.
    """
    names = _Names()
    insides = tuple(_Inside.of(statement, names) for statement in kernel.body)
    body = _hoist(kernel.body, insides, names)
    return replace(kernel, body=body) if names.used else kernel


_Divisions = tuple[tuple[Expr, frozenset[str]], ...]
"""Divisions and remainders in an expression, inner ones first, with the symbols in each."""


class _Names:
    """Hands out names for hoisted values, and knows which there may be."""

    def __init__(self) -> None:
        self.used = 0
        self._divisions: dict[Expr, _Divisions] = {}

    def divisions(self, expr: Expr) -> _Divisions:
        """Those in an expression."""
        known = self._divisions.get(expr)
        if known is None:
            known = tuple([each for arg in expr.args for each in self.divisions(arg)])
            costly = isinstance(expr, Apply) and expr.op in COSTLY
            if costly and expr.dtype is DataType.Index and not reads_memory(expr):
                symbols = frozenset(n.name for n in expr.walk() if isinstance(n, Symbol))
                known += ((expr, symbols),)
            self._divisions[expr] = known
        return known

    def fresh(self) -> Symbol:
        symbol = Symbol(f"x{self.used}", low=0)
        self.used += 1
        return symbol


@dataclass(frozen=True, slots=True)
class _Inside:
    """What is in a statement and in those inside it, which are found once for all levels.

    Attributes:
        defined: names that get a value: loops, flags, places in rings, and so on.
        divisions: in the order of the text, with the symbols in each.
        inside: of the statements inside.
    """

    defined: frozenset[str]
    divisions: dict[Expr, frozenset[str]]
    inside: tuple[_Inside, ...]

    @classmethod
    def of(cls, statement: Statement, names: _Names) -> _Inside:
        inside = tuple([cls.of(child, names) for child in children(statement)])
        own = frozenset(symbol.name for symbol in defined(statement))
        divisions: dict[Expr, frozenset[str]] = {}
        for expr in expressions(statement):
            divisions.update(names.divisions(expr))
        for each in inside:
            divisions.update(each.divisions)
        return cls(own.union(*(each.defined for each in inside)), divisions, inside)


def _hoist(
    statements: tuple[Statement, ...], insides: tuple[_Inside, ...], names: _Names
) -> tuple[Statement, ...]:
    """Hoist what depends on nothing in these statements; deeper things are left to deeper calls."""
    if not any(each.divisions for each in insides):
        return statements
    inner = frozenset[str]().union(*(each.defined for each in insides))
    found = dict.fromkeys(
        division
        for each in insides
        for division, symbols in each.divisions.items()
        if symbols.isdisjoint(inner)
    )
    lets: list[Statement] = []
    mapping: dict[Expr, Expr] = {}
    for expr in found:
        symbol = names.fresh()
        lets.append(Let(symbol, _replace(expr, mapping)))
        mapping[expr] = symbol
    if mapping:

        def named(expr: Expr) -> Expr:
            hoisted = any(division in mapping for division, _ in names.divisions(expr))
            return _replace(expr, mapping) if hoisted else expr

        statements = tuple(map_expressions(statement, named) for statement in statements)
        insides = tuple(_Inside.of(statement, names) for statement in statements)
    pairs = zip(statements, insides, strict=True)
    return (*lets, *(_below(statement, inside, names) for statement, inside in pairs))


def _below(statement: Statement, inside: _Inside, names: _Names) -> Statement:
    return map_bodies(statement, lambda body: _hoist(body, inside.inside, names))


def _replace(expr: Expr, mapping: dict[Expr, Expr]) -> Expr:
    """Replace without simplifying again: the expressions are already in simplest form."""
    if not mapping:
        return expr
    found = mapping.get(expr)
    return map_parts(expr, lambda part: _replace(part, mapping)) if found is None else found
