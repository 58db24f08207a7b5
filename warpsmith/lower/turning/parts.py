"""Taking the body of a loop apart: what fills slots, what uses them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.scalar import Apply, Expr
from warpsmith.kernel.nodes import Buffer, CopyVector, Element, For, If, Statement, Store
from warpsmith.kernel.products import MatrixTile, Multiply, StoreMatrix
from warpsmith.kernel.rings import Drain, Fill, Slots, TileCopy
from warpsmith.kernel.traversal import children, map_expressions, read, walk, written

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


def unwrapped(statements: Statements) -> Statements:
    """The statements with those of fills and drains in place of them."""
    result: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Fill | Drain):
            result += statement.body
        elif isinstance(statement, For | If):
            result.append(replace(statement, body=unwrapped(statement.body)))
        else:
            result.append(statement)
    return tuple(result)


def in_slots(statements: Statements, offsets: Mapping[str, Expr]) -> Statements:
    """The statements with these buffers' indices counted from the start of a slot."""
    if all(offset == integers.ZERO for offset in offsets.values()):
        return statements

    def moved(expr: Expr) -> Expr:
        if isinstance(expr, Element):
            index = moved(expr.index)
            offset = offsets.get(expr.buffer.name)
            return Element(expr.buffer, index if offset is None else integers.add(index, offset))
        if isinstance(expr, Apply) and any(isinstance(node, Element) for node in expr.walk()):
            return Apply(expr.op, tuple(map(moved, expr.args)), expr.dtype)
        return expr

    return tuple(_shifted(map_expressions(s, moved), offsets) for s in statements)


def _shifted(statement: Statement, offsets: Mapping[str, Expr]) -> Statement:
    """The statement, and all inside it, with the places that it names itself moved."""

    def shift(buffer: Buffer, index: Expr) -> Expr:
        offset = offsets.get(buffer.name)
        return index if offset is None else integers.add(index, offset)

    def tile(of: MatrixTile) -> MatrixTile:
        return replace(of, index=shift(of.buffer, of.index))

    match statement:
        case Store(buffer=buffer, index=index):
            return replace(statement, index=shift(buffer, index))
        case Multiply(a=a, b=b):
            index = shift(statement.accumulators, statement.index)
            return replace(statement, index=index, a=tile(a), b=tile(b))
        case CopyVector(target=target, source=source) | StoreMatrix(target=target, source=source):
            return replace(
                statement,
                target_index=shift(target, statement.target_index),
                source_index=shift(source, statement.source_index),
            )
        case TileCopy(shared=shared, index=index):
            return replace(statement, index=shift(shared, index))
        case For() | If() | Fill() | Drain():
            body = tuple(_shifted(inner, offsets) for inner in children(statement))
            return replace(statement, body=body)
    return statement
