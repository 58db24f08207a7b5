"""Rings that the threads fill, by `cp.async` or by loads and stores: groups and barriers."""

from __future__ import annotations

from collections.abc import Collection

from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.nodes import CopyVector, Statement, Synchronize
from warpsmith.kernel.rings import Advance, AwaitCopies, Commit, Cursor, Slots, TileCopy
from warpsmith.kernel.traversal import walk
from warpsmith.lower.turning.parts import Statements, in_slots, unwrapped


class CopyRing:
    """Buffers whose slots all threads fill together, as far ahead of their use.

    In shared memory each thread keeps its place by cursors. In registers a slot must be known when
    the kernel is compiled, so it follows from the index of a loop that is unrolled.

    Args:
        elements: of one slot, by buffer name.
        exchanged: some thread reads what another one filled.
    """

    def __init__(
        self,
        name: str,
        slots: Slots,
        elements: dict[str, int],
        fills: Statements,
        memory: MemoryType,
        exchanged: bool,
    ) -> None:
        self.slots = slots
        self.names: Collection[str] = elements.keys()
        self._elements = elements
        self._fills = fills
        self.in_registers = memory is MemoryType.local
        self.exchanged = exchanged and not self.in_registers
        self.asynchronous = any(map(is_asynchronous, walk(fills)))
        self._fill = Cursor(f"{name}_fill", slots.stages)
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


def cooperates(fills: Statements) -> bool:
    """Whether threads share the work of filling, so that each reads what others filled."""
    return any(isinstance(statement, TileCopy) for statement in walk(fills))


def awaited(rings: list[CopyRing], ahead: bool) -> list[Statement]:
    """What stands between fills and their use.

    With `ahead`, fills of later iterations may stay on their way: one group is committed an
    iteration, and each use waits until only those after its own are open. Rings of different
    prefetch share the groups, so the shortest decides.
    """
    waits: list[Statement] = []
    groups = [ring for ring in rings if ring.asynchronous]
    if groups:
        shortest = min(ring.slots.prefetch for ring in groups)
        waits.append(AwaitCopies(bulk=False, pending=max(shortest - 1, 0) if ahead else 0))
    meeting = [name for ring in rings if ring.exchanged for name in ring.names]
    if meeting:
        waits.append(Synchronize(f"{', '.join(meeting)} filled, and an older slot free"))
    return waits


def committed(rings: list[CopyRing]) -> list[Statement]:
    return [Commit(bulk=False)] if any(ring.asynchronous for ring in rings) else []
