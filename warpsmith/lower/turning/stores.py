"""Rings that the threads fill and the TMA unit drains to global memory."""

from __future__ import annotations

from warpsmith.ir import integers
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.nodes import Buffer, If, Statement, Synchronize
from warpsmith.kernel.rings import (
    ELECTED,
    Advance,
    AwaitCopies,
    Commit,
    Cursor,
    Drain,
    FenceProxy,
    Slots,
    TileCopy,
)
from warpsmith.kernel.traversal import walk
from warpsmith.lower.turning.parts import Statements, first_and_last, in_slots, touches, unwrapped


class StoreRing:
    """A staging buffer of one or more slots.

    Every thread makes what it wrote visible to the TMA unit before all meet; then one thread asks
    for the copy. With two slots or more, that thread first makes sure that the unit has read the
    slot that comes next, so that this one meeting also frees it.

    Args:
        again: the slots are used more than once.
        groups: that the thread commits in each iteration of the loop, one for each staging buffer.
    """

    def __init__(self, buffer: Buffer, slots: Slots, again: bool, groups: int = 1) -> None:
        self.slots = slots
        self.name = buffer.name
        self._again = again
        self._groups = groups
        self._use = Cursor(f"{buffer.name}_use", slots.stages)

    @property
    def cursors(self) -> tuple[Cursor, ...]:
        return (self._use,) if self._again and self.slots.stages > 1 else ()

    def used(self, statements: Statements) -> Statements:
        """The statements with their slot, and what orders its writing and its storing."""
        by_tma = stores_by_tma(statements, self.name)
        slot: Expr = self._use.slot if self.cursors else integers.ZERO
        moved = in_slots(statements, {self.name: integers.mul(slot, self.slots.elements)})
        first, _ = first_and_last(moved, lambda s: touches(s, (self.name,)))
        drain, last = first_and_last(moved, self._drains)
        free: list[Statement] = []
        if self._again and not self.cursors:
            read = [If(ELECTED, (AwaitCopies(bulk=True),))] if by_tma else []
            free = [*read, Synchronize(f"{self.name} is free again")]
        written: list[Statement] = [FenceProxy()] if by_tma else []
        if self.cursors and by_tma:
            pending = self._groups * (self.slots.stages - 1) - 1  # after that of the next slot
            written.append(If(ELECTED, (AwaitCopies(bulk=True, pending=pending),)))
        written.append(Synchronize(f"{self.name} is written"))
        stored: list[Statement] = []
        for statement in moved[drain : last + 1]:
            body = unwrapped((statement,))
            mine = self._drains(statement)
            stored += [If(ELECTED, body)] if mine and by_tma else body
        if by_tma:
            stored.append(If(ELECTED, (Commit(bulk=True),)))
        return (
            *moved[:first],
            *free,
            *moved[first:drain],
            *written,
            *_merged(stored),
            *moved[last + 1 :],
        )

    def advance(self) -> list[Statement]:
        return [Advance(self._use)] if self.cursors else []

    def _drains(self, statement: Statement) -> bool:
        return any(
            isinstance(inner, Drain) and inner.buffer.name == self.name
            for inner in walk((statement,))
        )


def stores_by_tma(statements: Statements, name: str) -> bool:
    """Whether the TMA unit, not the threads, stores what is staged in a buffer."""
    drains = (s for s in walk(statements) if isinstance(s, Drain) and s.buffer.name == name)
    return any(map(_stores_by_tma, walk(tuple(drains))))


def _merged(statements: list[Statement]) -> list[Statement]:
    """The statements with what the elected thread does in a row under one condition."""
    result: list[Statement] = []
    for statement in statements:
        before = result[-1] if result else None
        if (
            isinstance(statement, If)
            and isinstance(before, If)
            and statement.condition == before.condition == ELECTED
        ):
            result[-1] = If(ELECTED, (*before.body, *statement.body))
        else:
            result.append(statement)
    return result


def _stores_by_tma(statement: Statement) -> bool:
    return isinstance(statement, TileCopy) and statement.stores and statement.how.is_tma
