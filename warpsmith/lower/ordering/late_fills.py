"""Copies by `cp.async` of a role, which fill several stages at a time and tell of each later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply
from warpsmith.kernel.effects import Done
from warpsmith.kernel.nodes import If, Statement
from warpsmith.kernel.rings import Advance, ArriveByWarp, AwaitCopies, Begin, Cursor, FenceProxy
from warpsmith.lower.ordering.mbarrier_edges import MbarrierEdge
from warpsmith.lower.ordering.scopes import Scope, moving
from warpsmith.lower.ordering.stores import back, begin_of, is_committed, is_in_turn

HELD = 2
"""Stages that who uses them may hold: the one in use, and one that is released an iteration later.
What waits for a free stage has told of all others."""


def delay_fills(scope: Scope, guards: Sequence[MbarrierEdge]) -> list[MbarrierEdge]:
    """Let copies be on their way in all stages but two.

    Before::

        for i: { await empty; copy; commit; await all groups; fence; arrive at full[stage];
                 advance }

    After, with five stages::

        begin open
        for i: { await empty; copy; commit; await all groups but 3; fence;
                 if open == 3: arrive at full[stage - 3];
                 if open < 3: advance open;  advance }
        await all groups;  fence
        if 2 < open: arrive at full[stage - 3];  if 1 < open: arrive at full[stage - 2];  ...

    Returns the edges that are ordered by it: none where the role fills stages in other loops, or of
    several such pipelines, or uses some; and none where the TMA unit stores them, for which more
    are held: who waits there may wait for what it has not told of.
    """
    mine = [guard for guard in guards if guard.first.writes and _by_copies(guard, guards)]
    rings = {guard.pipeline.name for guard in mine}
    cursor, arrival = (mine[0].first.cursor, mine[0].arrival) if mine else (None, None)
    if len(rings) != 1 or cursor is None or arrival is None or not all(map(_fills, guards)):
        return []
    if len({guard.first.turning for guard in guards}) > 1:
        return []
    begin, advance = begin_of(scope, cursor), moving(scope.root, cursor)
    if any(guard.arrival is not arrival for guard in mine) or advance is None or begin is None:
        return []
    release = arrival.statement
    if not isinstance(release, ArriveByWarp) or begin.parent is not scope.root:
        return []
    if not is_in_turn(scope, arrival, advance, cursor) or not is_committed(arrival, Done.COPIES):
        return []
    most = min(guard.pipeline.stages for guard in guards) - HELD
    if most < 1:
        return []
    fences = [FenceProxy()] if any(guard.fenced for guard in mine) else []
    count = Cursor(f"{cursor.name}_open", cursor.stages)
    begin.after(Begin(count))
    full = Apply("eq", (count.stage, integers.index(most)), DataType.Bool)
    late = replace(release, stage=back(cursor, most))
    waits = arrival.before(AwaitCopies(bulk=False, pending=most), *fences)
    (told,) = arrival.before(If(full, (late,), uniform=True))
    arrival.before(If(integers.less(count.stage, most), (Advance(count),), uniform=True))
    arrival.remove()
    end: list[Statement] = [AwaitCopies(bulk=False), *fences]
    for by in range(most, 0, -1):
        last = replace(release, stage=back(cursor, by))
        end.append(If(integers.less(by - 1, count.stage), (last,), uniform=True))
    ends = scope.root.last(*end)
    assert told.body is not None
    for guard in mine:
        guard.nodes += [*waits, *ends]
        guard.arrival = told.body[0]
    return mine


def _fills(guard: MbarrierEdge) -> bool:
    """Whether the role fills a stage that its readers hold no longer than they need it."""
    return guard.first.writes and guard.second.effect.done is not Done.STORES


def _by_copies(guard: MbarrierEdge, guards: Sequence[MbarrierEdge]) -> bool:
    """Whether some of what fills the stages of its pipeline is carried by `cp.async`."""
    own = (each for each in guards if each.pipeline is guard.pipeline and each.first.writes)
    return any(each.first.effect.done is Done.COPIES for each in own)
