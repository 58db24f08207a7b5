"""Offsets in one piece of memory for what is not all in use at the same time."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Life:
    """Bytes that are in use from one step to another, both included.

    Attributes:
        size: of them; 0 has an offset, too.
        alignment: what their offset is a multiple of.
    """

    name: str
    size: int
    first: int
    last: int
    alignment: int


def packed(lives: Sequence[Life]) -> dict[str, int]:
    """By name, offsets such that what is in use together has no byte in common.

    Each lies at the lowest offset that those before it leave free for all of its life, so that the
    large ones are better given first.
    """
    offsets: dict[str, int] = {}
    taken: dict[int, set[tuple[int, int]]] = {}  # by step, starts and ends of what is in use
    for life in lives:
        steps = range(life.first, life.last + 1)
        offset = 0
        for start, end in sorted({place for step in steps for place in taken.get(step, ())}):
            if offset + life.size <= start:
                break
            offset = max(offset, -(-end // life.alignment) * life.alignment)
        offsets[life.name] = offset
        for step in steps:
            taken.setdefault(step, set()).add((offset, offset + life.size))
    return offsets
