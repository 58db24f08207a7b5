"""One piece of memory for all that passes between the kernels of a call.

Kernels of a call run one after the other; one that starts early touches no global memory before the
one before it is over. So a tensor needs its bytes from the kernel that writes it to the last that
reads it, and before and after that they are others'.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.engine.allocations import Allocation
from warpsmith.engine.planned import PlannedSegment
from warpsmith.layouts.lifetimes import Life, packed
from warpsmith.values import dataclass

ALIGNMENT = 256
"""What offsets are multiples of, as addresses of the driver's allocations are."""


@dataclass(frozen=True, slots=True)
class Arena:
    """Where each tensor lies in memory of `size` bytes: by name, its offset."""

    size: int
    offsets: tuple[tuple[str, int], ...]


def arena_of(lives: Sequence[Life]) -> Arena:
    """Offsets of tensors that live from one kernel of a call to another."""
    offsets = packed(sorted(lives, key=lambda each: -each.size))
    size = max((offsets[life.name] + life.size for life in lives), default=0)
    return Arena(size, tuple((life.name, offsets[life.name]) for life in lives))


def arena_between(segments: Sequence[PlannedSegment], temporaries: Sequence[Allocation]) -> Arena:
    """Where temporaries lie, each from the segment that writes it to the last that reads it."""
    last: dict[str, int] = {}
    for number, planned in enumerate(segments):
        last |= dict.fromkeys((*planned.segment.inputs, *planned.segment.outputs), number)
    first = {name: number for number, each in enumerate(segments) for name in each.segment.outputs}
    lives = (Life(t.name, t.bytes, first[t.name], last[t.name], ALIGNMENT) for t in temporaries)
    return arena_of(tuple(lives))
