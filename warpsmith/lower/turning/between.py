"""Rings between roles: one fills slots, others use them, and each counts its own turns."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.nodes import Buffer, If, Statement
from warpsmith.kernel.rings import (
    ELECTED,
    Advance,
    Arrive,
    ArriveByWarp,
    Await,
    Begin,
    Cursor,
    Jump,
    Ring,
    TileCopy,
)
from warpsmith.kernel.roles import THREADS, Passage, Role
from warpsmith.kernel.traversal import walk
from warpsmith.lower.turning.loads import armed, barriers, loads_by_tma
from warpsmith.lower.turning.parts import (
    Statements,
    first_and_last,
    in_slots,
    only_fills,
    touches,
    unwrapped,
    without_fills,
)


class RoleRing:
    """Passages that are filled together and used together, under one pair of barriers a slot.

    Args:
        fills: the producer's statements of one turn.
        uses: those of each consumer, by role.
    """

    def __init__(
        self,
        name: str,
        passages: tuple[Passage, ...],
        roles: Mapping[str, Role],
        fills: Statements,
        uses: Mapping[str, Statements],
    ) -> None:
        self.name = name
        self.passages = passages
        self._roles = roles
        self._names: Collection[str] = [p.buffer.name for p in passages]
        self._elements = {p.buffer.name: p.elements for p in passages}
        first = passages[0]
        self._first = first
        self.full = barriers(f"{name}_full", first.stages)
        self.empty = barriers(f"{name}_empty", first.stages)
        self._by_tma = loads_by_tma(only_fills(fills, self._names))
        self._stored = {role: self._is_stored(body) for role, body in uses.items()}

    @property
    def arrivals(self) -> tuple[tuple[Buffer, Expr], tuple[Buffer, Expr]]:
        """How often the phase of a slot's barrier is arrived at: full, and empty."""
        filled = integers.ONE if self._by_tma else self._arrivals(self._first.producer)
        used = integers.add(*map(self._arrivals, self._first.consumers))
        return (self.full, filled), (self.empty, used)

    @property
    def described(self) -> Ring:
        first = self._first
        return Ring(
            name=self.name,
            stages=first.stages,
            buffers=tuple(self._elements.items()),
            full=self.full,
            empty=self.empty,
            producer=first.producer,
            consumers=first.consumers,
            groups=first.groups if first.owned else 1,
            share=integers.constant(first.share) or 1,
            where=first.where,
        )

    def cursor(self, role: str) -> Cursor:
        """The place in the ring that a role keeps."""
        return Cursor(f"{self.name}_{role}", self._first.stages)

    def begin(self, role: str) -> list[Statement]:
        """The cursor starts where the slots of the role's, or of its group's, first turn lie."""
        start = self._start(role)
        if self._first.owned or start == integers.ZERO:
            return [Begin(self.cursor(role), start)]
        return [Begin(self.cursor(role)), Jump(self.cursor(role), start)]

    def skip(self, role: str) -> list[Statement]:
        """Pass over the slots of the other groups."""
        if not self._in_turn(role):
            return []
        others = integers.mul(self._first.groups - 1, self._first.share)
        known = integers.constant(others)
        if known is not None and known <= self._first.stages:
            return [Advance(self.cursor(role), known)]
        return [Jump(self.cursor(role), others)]

    def turned(self, role: str, statements: Statements) -> Statements:
        """A turn of a role with what orders it among the turns of the others."""
        if role == self._first.producer:
            return (*self._filled(role, statements), *self._advanced(role))
        return (*self._used(role, statements), *self._advanced(role))

    # --- one turn ------------------------------------------------------------------------------

    def _filled(self, role: str, statements: Statements) -> Statements:
        """Wait until the slot is empty, fill it, say so."""
        slot, phase = self.cursor(role).slot, self.cursor(role).phase
        offsets = self._offsets(slot)
        free = Await(self.empty, slot, integers.sub(1, phase))
        if self._by_tma:
            copies = unwrapped(in_slots(only_fills(statements, self._names), offsets))
            asked = (free, *armed(copies, self.full, slot))
            rest = without_fills(statements, self._names)
            return (*self._by_one(role, asked), *rest)
        first, last = self._span(statements)
        middle = unwrapped(in_slots(statements[first : last + 1], offsets), self._names)
        done = ArriveByWarp(self.full, slot)
        return (*statements[:first], free, *middle, done, *statements[last + 1 :])

    def _used(self, role: str, statements: Statements) -> Statements:
        """Wait until the slot is full, use it, say so."""
        slot, phase = self.cursor(role).slot, self.cursor(role).phase
        first, last = self._span(statements)
        wait = Await(self.full, slot, phase)
        middle = unwrapped(in_slots(statements[first : last + 1], self._offsets(slot)), self._names)
        single = self._roles[role].single
        if self._stored[role] and not single:
            middle = (If(ELECTED, middle),)
        done = Arrive(self.empty, slot) if single else ArriveByWarp(self.empty, slot)
        return (*statements[:first], wait, *middle, done, *statements[last + 1 :])

    def _advanced(self, role: str) -> Statements:
        """The next slot is the next one; or, where groups have one each in turn, some further."""
        alone = self._in_turn(role) and self._first.share == integers.ONE
        step = self._first.groups if alone else 1
        if step > self._first.stages:
            return (Jump(self.cursor(role), integers.index(step)),)
        return (Advance(self.cursor(role), step),)

    def _by_one(self, role: str, statements: Statements) -> Statements:
        return statements if self._roles[role].single else (If(ELECTED, statements),)

    def _span(self, statements: Statements) -> tuple[int, int]:
        return first_and_last(statements, lambda s: touches(s, self._names))

    def _offsets(self, slot: Expr) -> dict[str, Expr]:
        return {name: integers.mul(slot, size) for name, size in self._elements.items()}

    # --- who -----------------------------------------------------------------------------------

    def _arrivals(self, role: str) -> Expr:
        """Warps of a role, or of one of its groups, that arrive at a slot's barrier."""
        known = self._roles[role]
        if known.single:
            return integers.ONE
        return integers.mul(known.group_warps, 1 if self._in_turn(role) else known.groups)

    def _in_turn(self, role: str) -> bool:
        return role in self._first.in_turn

    def _start(self, role: str) -> Expr:
        kind = self._roles[role].groups_along
        if not self._in_turn(role) or kind is None:
            return integers.ZERO
        return integers.mul(THREADS[BLOCK_TYPES.index(kind)], self._first.share)

    def _is_stored(self, statements: Statements) -> bool:
        """Whether the TMA unit reads the slots, and not threads."""
        return any(
            isinstance(s, TileCopy) and s.stores and s.how.is_tma and s.shared.name in self._names
            for s in walk(statements)
        )
