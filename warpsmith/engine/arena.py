"""One piece of memory for all that passes between the kernels of a call.

Kernels of a call run one after the other; one that starts early touches no global memory before the
one before it is over. So a tensor needs its bytes from the kernel that writes it to the last that
reads it, and before and after that they are others'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT = 256
"""What offsets are multiples of, as addresses of the driver's allocations are."""


@dataclass(frozen=True, slots=True)
class Life:
    """Bytes that are in use from one kernel of a call to another, both included."""

    name: str
    size: int
    first: int
    last: int

    def meets(self, other: Life) -> bool:
        """Whether both are in use at some time."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class Arena:
    """Where each tensor lies in memory of `size` bytes: by name, its offset."""

    size: int
    offsets: tuple[tuple[str, int], ...]


def packed(lives: Sequence[Life]) -> Arena:
    """Offsets such that what is in use together has no byte in common.

    The largest come first, each at the lowest offset that is free for all of its life.
    """
    placed: list[tuple[Life, int]] = []
    for life in sorted(lives, key=lambda each: -each.size):
        taken = sorted((o, o + other.size) for other, o in placed if other.meets(life))
        offset = 0
        for start, end in taken:
            if offset + life.size <= start:
                break
            offset = max(offset, _aligned(end))
        placed.append((life, offset))
    size = max((offset + life.size for life, offset in placed), default=0)
    where = {life.name: offset for life, offset in placed}
    return Arena(size, tuple((life.name, where[life.name]) for life in lives))


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
