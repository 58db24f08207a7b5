"""Taking the body of a loop apart: what fills slots, what uses them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.scalar import Apply, Expr
from warpsmith.kernel.nodes import Buffer, Element, For, Statement
from warpsmith.kernel.rings import Drain, Fill, Slots
from warpsmith.kernel.traversal import map_expressions, map_places, read, rewritten, walk, written

Statements = tuple[Statement, ...]


def only_fills(statements: Statements, names: Collection[str]) -> Statements:
    """The fills of these buffers, with the loops around them."""
    result: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Fill):
            result += [statement] if statement.buffer.name in names else []
        elif isinstance(statement, For):
            body = only_fills(statement.body, names)
            result += [replace(statement, body=body)] if body else []
    return tuple(result)


def without_fills(statements: Statements, names: Collection[str]) -> Statements:
    """All but the fills of these buffers; loops that are left empty go too."""
    result: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Fill) and statement.buffer.name in names:
            continue
        if isinstance(statement, For):
            body = without_fills(statement.body, names)
            if not body:
                continue
            statement = replace(statement, body=body)
        result.append(statement)
    return tuple(result)


def filled(statements: Statements) -> dict[str, tuple[Buffer, Slots]]:
    """Buffers that are filled in these statements, by name."""
    fills = (s for s in walk(statements) if isinstance(s, Fill))
    return {s.buffer.name: (s.buffer, s.slots) for s in fills}


def drained(statements: Statements) -> dict[str, tuple[Buffer, Slots]]:
    """Buffers that the TMA unit stores in these statements, by name."""
    drains = (s for s in walk(statements) if isinstance(s, Drain))
    return {s.buffer.name: (s.buffer, s.slots) for s in drains}


def touches(statement: Statement, names: Collection[str]) -> bool:
    """Whether a statement, or one inside it, reads or writes one of these buffers."""
    return any(
        buffer.name in names
        for inner in walk((statement,))
        for buffer in (*read(inner), *written(inner))
    )


def first_and_last(statements: Statements, test: Callable[[Statement], bool]) -> tuple[int, int]:
    """Positions of the first and the last statement that `test` picks; (0, -1) without any."""
    found = [position for position, statement in enumerate(statements) if test(statement)]
    return (found[0], found[-1]) if found else (0, -1)


def unwrapped(statements: Statements, names: Collection[str] | None = None) -> Statements:
    """The statements with those of fills and drains in place of them: of these buffers, or all."""

    def change(statement: Statement) -> Statements:
        if not isinstance(statement, Fill | Drain):
            return (statement,)
        mine = names is None or statement.buffer.name in names
        return statement.body if mine else (statement,)

    return rewritten(statements, change)


def in_slots(statements: Statements, offsets: Mapping[str, Expr]) -> Statements:
    """The statements with these buffers' indices counted from the start of a slot."""
    if all(offset == integers.ZERO for offset in offsets.values()):
        return statements

    def shifted(buffer: Buffer, index: Expr) -> Expr:
        offset = offsets.get(buffer.name)
        return index if offset is None else integers.add(index, offset)

    def moved(expr: Expr) -> Expr:
        if isinstance(expr, Element):
            return Element(expr.buffer, shifted(expr.buffer, moved(expr.index)))
        if isinstance(expr, Apply) and any(isinstance(node, Element) for node in expr.walk()):
            return Apply(expr.op, tuple(map(moved, expr.args)), expr.dtype)
        return expr

    return tuple(map_places(map_expressions(s, moved), shifted) for s in statements)
