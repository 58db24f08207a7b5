"""Rings that the threads fill and the TMA unit drains to global memory."""

from __future__ import annotations

from warpsmith.ir import integers
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.nodes import Buffer, If, Statement
from warpsmith.kernel.rings import ELECTED, Advance, Cursor, Drain, Slots, TileCopy
from warpsmith.kernel.traversal import walk
from warpsmith.lower.turning.parts import Statements, first_and_last, in_slots, unwrapped


class StoreRing:
    """A staging buffer of one or more slots, which one thread asks the TMA unit to store.

    Args:
        again: the slots are used more than once.
    """

    def __init__(self, buffer: Buffer, slots: Slots, again: bool) -> None:
        self.slots = slots
        self.name = buffer.name
        self._again = again
        self._use = Cursor(f"{buffer.name}_use", slots.stages)

    @property
    def cursors(self) -> tuple[Cursor, ...]:
        return (self._use,) if self._again and self.slots.stages > 1 else ()

    def used(self, statements: Statements) -> Statements:
        """The statements with their slot, and stored by the elected thread."""
        by_tma = stores_by_tma(statements, self.name)
        slot: Expr = self._use.slot if self.cursors else integers.ZERO
        moved = in_slots(statements, {self.name: integers.mul(slot, self.slots.elements)})
        drain, last = first_and_last(moved, self._drains)
        stored: list[Statement] = []
        for statement in moved[drain : last + 1]:
            body = unwrapped((statement,))
            mine = self._drains(statement)
            stored += [If(ELECTED, body)] if mine and by_tma else body
        return (*moved[:drain], *stored, *moved[last + 1 :])

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


def _stores_by_tma(statement: Statement) -> bool:
    return isinstance(statement, TileCopy) and statement.stores and statement.how.is_tma
