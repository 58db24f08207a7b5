"""What each statement does to memory: where, by which proxy, when it is done, and who does it."""

from __future__ import annotations

from collections.abc import Iterator

from warpsmith.ir.scalar import Expr
from warpsmith.kernel.effects import READ, Effect
from warpsmith.kernel.nodes import Buffer, Statement
from warpsmith.kernel.traversal import effect_of, elements, operands
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Access:
    """What one statement does to one buffer: it reads, or it writes.

    Attributes:
        index: first element, or the one; None where nobody knows it.
    """

    buffer: Buffer
    index: Expr | None
    writes: bool
    effect: Effect


def accesses(statement: Statement) -> Iterator[Access]:
    """What a statement itself does, its children aside: reads, then writes.

    An update is a read and a write.
    """
    for element in elements(statement):
        yield Access(element.buffer, element.index, False, READ)
    writes: list[Access] = []
    for buffer, declared, holder in operands(statement):
        effect = effect_of(declared, holder)
        index: Expr | None = getattr(holder, declared.index) if declared.index else None
        if effect.reads:
            yield Access(buffer, index, False, effect)
        if effect.writes:
            writes.append(Access(buffer, index, True, effect))
    yield from writes
