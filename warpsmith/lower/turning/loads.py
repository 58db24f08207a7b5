"""Rings that the TMA unit fills: mbarriers guard them in both directions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Const, Expr, Symbol
from warpsmith.kernel.nodes import Buffer, For, If, Statement
from warpsmith.kernel.rings import (
    ELECTED,
    Advance,
    ArriveByWarp,
    Await,
    AwaitClock,
    Cursor,
    Expect,
    Slots,
    TileCopy,
)
from warpsmith.kernel.traversal import walk
from warpsmith.lower.turning.parts import (
    Statements,
    first_and_last,
    in_slots,
    touches,
    unwrapped,
)


class LoadRing:
    """Buffers whose slots fill together, under one barrier.

    Attributes:
        full: a barrier a slot, which counts the bytes that land.
        empty: a barrier a slot, at which every warp arrives when it is done with it; None for
            buffers that are filled once.

    Args:
        elements: of one slot, by buffer name.
        again: the slots are used more than once.
    """

    def __init__(
        self, name: str, slots: Slots, elements: dict[str, int | Expr], again: bool
    ) -> None:
        stages = slots.stages
        self.slots = slots
        self.names: Collection[str] = elements.keys()
        self._elements = elements
        self.full = barriers(f"{name}_full", stages)
        self.empty = barriers(f"{name}_empty", stages) if again else None
        self._fill = Cursor(f"{name}_fill", stages, slots.prefetch)
        self._use = Cursor(f"{name}_use", stages)

    @property
    def cursors(self) -> tuple[Cursor, ...]:
        return (self._fill, self._use) if self.empty else ()

    def fill(
        self, fills: Statements, index: Expr | None = None, *, fresh: bool = False
    ) -> list[Statement]:
        """One thread waits for the slot, says how many bytes will come, and asks for them.

        Args:
            index: of the iteration for which it is filled, where that may have its time: those of
                the prologue are filled at once.
            fresh: the slot has never been used, and needs no wait.
        """
        slot, phase = _place(self._fill, self.empty)
        copies = unwrapped(in_slots(fills, self._offsets(slot)))
        asked: list[Statement] = []
        if self.empty and not fresh:
            asked.append(Await(self.empty, slot, integers.sub(1, phase)))
        if self.slots.interval and index is not None:
            times = integers.sub(index, self.slots.prefetch)
            asked.append(AwaitClock(times, self.slots.interval))
        asked += armed(copies, self.full, slot)
        advance = [Advance(self._fill)] if self.empty else []
        return [If(ELECTED, tuple(asked)), *advance]

    def used(self, statements: Statements) -> Statements:
        """The statements with a wait before the first use of the slot, a release after the last."""
        slot, phase = _place(self._use, self.empty)
        first, last = first_and_last(statements, lambda s: touches(s, self.names))
        wait = Await(self.full, slot, phase)
        done = (ArriveByWarp(self.empty, slot),) if self.empty else ()
        using = in_slots(statements[first : last + 1], self._offsets(slot))
        return (*statements[:first], wait, *using, *done, *statements[last + 1 :])

    def advance(self) -> list[Statement]:
        return [Advance(self._use)] if self.empty else []

    def _offsets(self, slot: Expr) -> dict[str, Expr]:
        return {name: integers.mul(slot, size) for name, size in self._elements.items()}


def barriers(name: str, stages: int) -> Buffer:
    """Memory of a barrier for each slot."""
    size = integers.index(stages)
    return Buffer(name, DataType.Int, MemoryType.shared, size, guarded=True, alignment=8)


def _place(cursor: Cursor, again: Buffer | None) -> tuple[Expr, Expr]:
    return (cursor.slot, cursor.phase) if again else (integers.ZERO, integers.ZERO)


def armed(copies: Statements, barrier: Buffer, slot: Expr) -> Statements:
    """Copies that count at the barrier, with what announces their bytes."""
    total = _total(copies)
    counted = tuple(_counted(s, barrier, slot, announce=total is None) for s in copies)
    if total is not None:
        return (Expect(barrier, slot, total), *(s for part in counted for s in part))
    flat = tuple(s for part in counted for s in part)
    return (*flat, Expect(barrier, slot, integers.ZERO))


def _total(statements: Statements) -> Expr | None:
    """Bytes of all copies; None where they differ from iteration to iteration of a loop."""
    total: Expr = integers.ZERO
    for statement in statements:
        amount: Expr | None
        if isinstance(statement, For):
            amount = _total(statement.body)
            if amount is None or _depends(amount, statement.symbol):
                return None
            amount = integers.mul(amount, statement.extent)
        else:
            assert isinstance(statement, TileCopy)
            amount = statement.bytes
        total = integers.add(total, amount)
    return total


def _depends(expr: Expr, symbol: Symbol) -> bool:
    return any(isinstance(n, Symbol) and n.name == symbol.name for n in expr.walk())


def _counted(statement: Statement, barrier: Buffer, slot: Expr, announce: bool) -> Statements:
    if isinstance(statement, For):
        body = tuple(s for c in statement.body for s in _counted(c, barrier, slot, announce))
        return (replace(statement, body=body),)
    assert isinstance(statement, TileCopy)
    copy = replace(statement, barrier=(barrier, slot))
    return (Expect(barrier, slot, copy.bytes, arrives=False), copy) if announce else (copy,)


def loads_by_tma(statements: Statements) -> bool:
    """Whether the TMA unit fills what these statements fill."""
    copies = [s for s in walk(statements) if isinstance(s, TileCopy)]
    return bool(copies) and all(copy.how.is_tma for copy in copies)


def at_most(extent: Expr, count: int) -> Expr:
    """`min(extent, count)`, a constant where the extent is."""
    known = integers.constant(extent)
    return Const(min(known, count)) if known is not None else integers.minimum(extent, count)
