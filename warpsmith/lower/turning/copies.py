"""Rings that the threads fill, by `cp.async` or by loads and stores: slot by slot."""

from __future__ import annotations

from collections.abc import Collection

from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.accesses import accesses
from warpsmith.kernel.effects import Done
from warpsmith.kernel.nodes import Buffer, Element, Statement, Store
from warpsmith.kernel.rings import Advance, Cursor, Slots
from warpsmith.kernel.traversal import walk
from warpsmith.lower.turning.parts import Statements, in_slots, unwrapped

CARRIED = 8
"""Elements of a slot in registers that are rather moved each turn than known by unrolling."""


class CopyRing:
    """Buffers whose slots all threads fill together, as far ahead of their use.

    In shared memory each thread keeps its place by cursors. In registers a slot must be known when
    the kernel is compiled. So it follows from the index of a loop that is unrolled; or, where two
    slots are small, the second is always the one that is filled, and each turn moves it to the
    first, which is always the one that is used.

    Args:
        elements: of one slot, by buffer name.
        buffers: the buffers.
    """

    def __init__(
        self,
        name: str,
        slots: Slots,
        elements: dict[str, int | Expr],
        fills: Statements,
        buffers: tuple[Buffer, ...],
    ) -> None:
        self.slots = slots
        self.names: Collection[str] = elements.keys()
        self._elements = elements
        self._fills = fills
        self._buffers = buffers
        self.in_registers = buffers[0].memory is MemoryType.local
        self.carried = self.in_registers and slots.prefetch == 1 and _are_carried(slots, elements)
        self.asynchronous = any(map(is_asynchronous, walk(fills)))
        self._fill = Cursor(f"{name}_fill", slots.stages, slots.prefetch)
        self._use = Cursor(f"{name}_use", slots.stages)

    @property
    def cursors(self) -> tuple[Cursor, ...]:
        return () if self.in_registers or self.slots.stages == 1 else (self._fill, self._use)

    def fill(self, index: Expr) -> list[Statement]:
        """Fill the next slot; `index` counts the loop's iterations, that of the fill's data."""
        advance = [Advance(self._fill)] if self.cursors else []
        slot = integers.ONE if self.carried else self._slot(self._fill, index)
        return [*unwrapped(in_slots(self._fills, self._offsets(slot))), *advance]

    def used(self, statements: Statements, index: Expr) -> Statements:
        """The statements with their reads from the slot of iteration `index`."""
        slot = integers.ZERO if self.carried else self._slot(self._use, index)
        return in_slots(statements, self._offsets(slot))

    def carry(self) -> list[Statement]:
        """At the start of a turn: what was filled is what is used now."""
        return [
            Store(buffer, integers.index(k), Element(buffer, integers.index(size + k)))
            for buffer in self._buffers
            for size in (self._elements[buffer.name],)
            if self.carried and isinstance(size, int)
            for k in range(size)
        ]

    def advance(self) -> list[Statement]:
        return [Advance(self._use)] if self.cursors else []

    def _slot(self, cursor: Cursor, index: Expr) -> Expr:
        if self.slots.stages == 1:
            return integers.ZERO
        return integers.mod(index, self.slots.stages) if self.in_registers else cursor.slot

    def _offsets(self, slot: Expr) -> dict[str, Expr]:
        return {name: integers.mul(slot, size) for name, size in self._elements.items()}


def _are_carried(slots: Slots, elements: dict[str, int | Expr]) -> bool:
    """Whether slots are few and small enough to move the second to the first in every turn."""
    sizes = [size for size in elements.values() if isinstance(size, int)]
    return slots.stages == 2 and len(sizes) == len(elements) and sum(sizes) <= CARRIED


def is_asynchronous(statement: Statement) -> bool:
    """Whether a statement copies by `cp.async`."""
    return any(access.effect.done is Done.COPIES for access in accesses(statement))
