"""Stores by the TMA unit from a role of one thread: several on their way, stages released late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Expr
from warpsmith.kernel.clusters import ArriveRemote
from warpsmith.kernel.effects import Done
from warpsmith.kernel.nodes import If
from warpsmith.kernel.rings import Advance, Arrive, ArriveByWarp, AwaitCopies, Begin, Cursor, Jump
from warpsmith.lower.ordering.groups import commits, waits
from warpsmith.lower.ordering.mbarrier_edges import MbarrierEdge
from warpsmith.lower.ordering.scopes import Scope, moving
from warpsmith.lower.ordering.tree import Node


def delay_arrivals(scope: Scope, guards: Sequence[MbarrierEdge]) -> list[MbarrierEdge]:
    """Let stores be on their way in all stages but the one that threads fill meanwhile.

    Where the TMA unit fills them, half are left to loads on their way.

    Before::

        for i: { await full; store; commit; arrive at empty[stage]; advance }

    After, with three stages::

        begin open
        for i: { await full; store; commit; await all groups but 2;
                 if open == 2: arrive at empty[stage - 2];
                 if open < 2: advance open;  advance }

    The stages of the last stores are never filled again, and nobody waits for them.

    Returns the edges that are ordered by it: none where the thread comes by stages of other rings,
    too, for whoever fills one might wait for the other, or by stages of other groups in between.
    """
    mine = [guard for guard in guards if guard.first.effect.done is Done.STORES]
    rings = {guard.pipeline.name for guard in guards}
    cursor, arrival = (mine[0].first.cursor, mine[0].arrival) if mine else (None, None)
    if not scope.elected or len(rings) != 1 or cursor is None or arrival is None:
        return []
    begin, advance = begin_of(scope, cursor), moving(scope.root, cursor)
    if any(guard.arrival is not arrival for guard in mine) or advance is None or begin is None:
        return []
    if not is_in_turn(scope, arrival, advance, cursor) or not is_committed(arrival, Done.STORES):
        return []
    assert isinstance(arrival.statement, Arrive | ArriveRemote)
    by_unit = any(guard.second.effect.done is Done.BYTES for guard in mine)
    most = (cursor.stages - 1) // 2 if by_unit else cursor.stages - 1
    if not most:
        return []
    count = Cursor(f"{cursor.name}_open", cursor.stages)
    begin.after(Begin(count))
    late = replace(arrival.statement, stage=back(cursor, most))
    full = Apply("eq", (count.stage, integers.index(most)), DataType.Bool)
    (wait,) = arrival.before(AwaitCopies(bulk=True, pending=most))
    (released,) = arrival.before(If(full, (late,), uniform=True))
    arrival.before(If(integers.less(count.stage, most), (Advance(count),), uniform=True))
    arrival.remove()
    assert released.body is not None
    for guard in mine:
        guard.nodes.append(wait)
        guard.arrival = released.body[0]
    return mine


def begin_of(scope: Scope, cursor: Cursor) -> Node | None:
    """Where a cursor comes into being."""
    found = (n for n in scope.root.walk() if n.statement == Begin(cursor))
    return next(found, None)


def is_in_turn(scope: Scope, arrival: Node, advance: Node, cursor: Cursor) -> bool:
    """Whether each turn ends with this arrival, and goes on to the next stage."""
    moves = [
        node
        for node in scope.root.walk()
        if isinstance(node.statement, Advance | Jump) and node.statement.cursor.name == cursor.name
    ]
    return (
        moves == [advance]
        and advance.statement == Advance(cursor)
        and isinstance(arrival.statement, Arrive | ArriveByWarp | ArriveRemote)
        and arrival.statement.stage == cursor.stage
        and advance in arrival.siblings[arrival.place :]
    )


def is_committed(arrival: Node, done: Done) -> bool:
    """Whether the stores, or copies, of a turn are one group, which nothing waits for yet."""
    before = [node.statement for node in arrival.siblings[: arrival.place]]
    waited = any(waits(statement, done) is not None for statement in before)
    return not waited and sum(commits(statement, done) for statement in before) == 1


def back(cursor: Cursor, by: int) -> Expr:
    """The stage so many before a cursor's."""
    early = integers.less(cursor.stage, by)
    wrapped = integers.add(cursor.stage, cursor.stages - by)
    return Apply("where", (early, wrapped, integers.sub(cursor.stage, by)), DataType.Index)
