"""Look up groups of rows while tensor cores multiply, where only what is behind them asks."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.ir.groups import looks_up
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import If, Let, Statement
from warpsmith.kernel.products import AwaitProducts
from warpsmith.kernel.traversal import expressions, map_bodies, walk

Statements = tuple[Statement, ...]


def look_up_late(kernel: Kernel) -> Kernel:
    """What memory says of a tile's rows is asked for when the last products are on their way.

    Before::

        x0 = group_row(..);  for k: { .. products; commit .. }  await products;  T1[x0, ..] = ..

    After::

        for k: { .. products; commit .. }  x0 = group_row(..);  await products;  T1[x0, ..] = ..

    A search takes a microsecond, in which tensor cores had nothing to do.
    """
    if not any(isinstance(s, Let) and looks_up(s.value) for s in walk(kernel.body)):
        return kernel
    body = tuple(_late(s) if isinstance(s, Branch) else s for s in kernel.body)
    return replace(kernel, body=body) if body != kernel.body else kernel


def _late(statement: Statement) -> Statement:
    return map_bodies(statement, lambda body: _moved(tuple(map(_late, _sunk(body)))))


def _sunk(body: Statements) -> Statements:
    """The body with its searches inside the one condition behind which alone they are asked for."""
    early, late, asking = _parted(body)
    first, names = next(iter(asking), None), {let.symbol.name for let in late}
    if not isinstance(first, If):
        return body
    others = (replace(first, body=()), *asking[1:])
    if any(_asks(s, names) for s in others):
        return body
    return (*early, replace(first, body=(*late, *first.body)), *asking[1:])


def _moved(body: Statements) -> Statements:
    """The body with its searches before the last wait for products, if nothing asks before it."""
    waits = [place for place, s in enumerate(body) if isinstance(s, AwaitProducts)]
    early, late, asking = _parted(body[: waits[-1]] if waits else ())
    return (*early, *late, *body[waits[-1] :]) if late and not asking else body


def _parted(body: Statements) -> tuple[Statements, tuple[Let, ...], Statements]:
    """What needs no search, up to the first statement that does; the searches, and what is named by
    them; and the rest, from that statement on.
    """
    early: list[Statement] = []
    late: list[Let] = []
    for place, statement in enumerate(body):
        asks = _asks(statement, {let.symbol.name for let in late})
        if isinstance(statement, Let) and (asks or looks_up(statement.value)):
            late.append(statement)
        elif asks:
            return tuple(early), tuple(late), body[place:]
        else:
            early.append(statement)
    return tuple(early), tuple(late), ()


def _asks(statement: Statement, names: set[str]) -> bool:
    """Whether a statement, or one inside it, needs one of these values."""

    def has(expr: Expr) -> bool:
        return any(isinstance(node, Symbol) and node.name in names for node in expr.walk())

    return any(has(expr) for inner in walk((statement,)) for expr in expressions(inner))
