"""Statements and the stages that they touch: which fill one, which use it, and where it lies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.nodes import Buffer, Element, For, If, Statement
from warpsmith.kernel.pipelines import Drain, Fill, Pipeline
from warpsmith.kernel.rings import ELECTED, TileCopy
from warpsmith.kernel.traversal import (
    children,
    map_expressions,
    map_parts,
    map_places,
    read,
    reads_memory,
    rewritten,
    walk,
    written,
)

Statements = tuple[Statement, ...]


def only_fills(statements: Statements, names: Collection[str]) -> Statements:
    """The fills of these pipelines, with the loops around them."""
    result: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Fill):
            result += [statement] if statement.pipeline in names else []
        elif isinstance(statement, For):
            body = only_fills(statement.body, names)
            result += [replace(statement, body=body)] if body else []
    return tuple(result)


def without_fills(statements: Statements, names: Collection[str]) -> Statements:
    """All but the fills of these pipelines; loops that are left empty go too."""
    result: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Fill) and statement.pipeline in names:
            continue
        if isinstance(statement, For):
            body = without_fills(statement.body, names)
            if not body:
                continue
            statement = replace(statement, body=body)
        result.append(statement)
    return tuple(result)


def filled(statements: Statements) -> tuple[str, ...]:
    """Names of the pipelines that are filled in these statements."""
    return tuple(dict.fromkeys(s.pipeline for s in walk(statements) if isinstance(s, Fill)))


def drained(statements: Statements) -> tuple[str, ...]:
    """Names of the pipelines that are stored to global memory in these statements."""
    return tuple(dict.fromkeys(s.pipeline for s in walk(statements) if isinstance(s, Drain)))


def accesses(statement: Statement, names: Collection[str]) -> bool:
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


def unwrapped(statements: Statements, names: Collection[str]) -> Statements:
    """The statements with those of these pipelines' fills and drains in place of them."""

    def change(statement: Statement) -> Statements:
        mine = isinstance(statement, Fill | Drain) and statement.pipeline in names
        return children(statement) if mine else (statement,)

    return rewritten(statements, change)


def spanned(
    statements: Statements, pipeline: Pipeline, stage: Expr, first: Statement, last: Statement
) -> Statements:
    """What touches a stage of a pipeline does so in that one, between two verbs."""
    start, end = first_and_last(statements, lambda s: accesses(s, pipeline.names))
    inside = at_stage(statements[start : end + 1], pipeline, stage)
    return (*statements[:start], first, *inside, last, *statements[end + 1 :])


def by_elected(statements: Statements, names: Collection[str]) -> Statements:
    """The statements with stores by the TMA unit asked for by the elected thread."""
    stores = any(
        isinstance(inner, TileCopy) and inner.stores and inner.how.is_tma
        for drain in walk(statements)
        if isinstance(drain, Drain) and drain.pipeline in names
        for inner in walk(drain.body)
    )
    if not stores:
        return statements
    return tuple(If(ELECTED, (s,)) if drains(s, names) else s for s in statements)


def drains(statement: Statement, names: Collection[str]) -> bool:
    """Whether a statement, or one inside it, stores what a pipeline holds."""
    return not set(names).isdisjoint(drained((statement,)))


# --- where a stage lies ------------------------------------------------------------------------


def at_stage(statements: Statements, pipeline: Pipeline, stage: Expr) -> Statements:
    """The statements with what they do to a pipeline's buffers done in one stage of them."""
    offsets = {each.name: integers.mul(stage, each.elements) for each in pipeline.contents}
    return unwrapped(moved(statements, offsets), pipeline.names)


def moved(statements: Statements, offsets: Mapping[str, Expr]) -> Statements:
    """The statements with these buffers' indices counted from other elements than the first."""
    if all(offset == integers.ZERO for offset in offsets.values()):
        return statements

    def place(buffer: Buffer, index: Expr) -> Expr:
        offset = offsets.get(buffer.name)
        return index if offset is None else integers.add(index, offset)

    def new(expr: Expr) -> Expr:
        if isinstance(expr, Element):
            return Element(expr.buffer, place(expr.buffer, new(expr.index)))
        return map_parts(expr, new) if reads_memory(expr) else expr

    return tuple(map_places(map_expressions(s, new), place) for s in statements)
