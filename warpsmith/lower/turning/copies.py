"""Rings that the threads fill, by `cp.async` or by loads and stores: slot by slot."""

from __future__ import annotations

from collections.abc import Collection

from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.nodes import CopyVector, Statement
from warpsmith.kernel.rings import Advance, Cursor, Slots, TileCopy
from warpsmith.kernel.traversal import walk
from warpsmith.lower.turning.parts import Statements, in_slots, unwrapped


class CopyRing:
    """Buffers whose slots all threads fill together, as far ahead of their use.

    In shared memory each thread keeps its place by cursors. In registers a slot must be known when
    the kernel is compiled, so it follows from the index of a loop that is unrolled.

    Args:
        elements: of one slot, by buffer name.
    """

    def __init__(
        self,
        name: str,
        slots: Slots,
        elements: dict[str, int],
        fills: Statements,
        memory: MemoryType,
    ) -> None:
        self.slots = slots
        self.names: Collection[str] = elements.keys()
        self._elements = elements
        self._fills = fills
        self.in_registers = memory is MemoryType.local
        self.asynchronous = any(map(is_asynchronous, walk(fills)))
        self._fill = Cursor(f"{name}_fill", slots.stages, slots.prefetch)
        self._use = Cursor(f"{name}_use", slots.stages)

    @property
    def cursors(self) -> tuple[Cursor, ...]:
        return () if self.in_registers or self.slots.stages == 1 else (self._fill, self._use)

    def fill(self, index: Expr) -> list[Statement]:
        """Fill the next slot; `index` counts the loop's iterations, that of the fill's data."""
        advance = [Advance(self._fill)] if self.cursors else []
        slot = self._slot(self._fill, index)
        return [*unwrapped(in_slots(self._fills, self._offsets(slot))), *advance]

    def used(self, statements: Statements, index: Expr) -> Statements:
        """The statements with their reads from the slot of iteration `index`."""
        return in_slots(statements, self._offsets(self._slot(self._use, index)))

    def advance(self) -> list[Statement]:
        return [Advance(self._use)] if self.cursors else []

    def _slot(self, cursor: Cursor, index: Expr) -> Expr:
        if self.slots.stages == 1:
            return integers.ZERO
        return integers.mod(index, self.slots.stages) if self.in_registers else cursor.slot

    def _offsets(self, slot: Expr) -> dict[str, Expr]:
        return {name: integers.mul(slot, size) for name, size in self._elements.items()}


def is_asynchronous(statement: Statement) -> bool:
    """Whether a statement copies by `cp.async`."""
    if isinstance(statement, TileCopy):
        return statement.how is LoadStoreOpType.cp_async
    return isinstance(statement, CopyVector) and statement.asynchronous
