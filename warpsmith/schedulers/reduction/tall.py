"""Blocks for columns that are longer than one thread takes: how wide, how tall, how many accesses.

A block whose threads are exactly its share of the columns needs no predicate for them, and none of
its threads is idle. So widths that divide the columns' vectors are preferred; which of them is
taken decides into how many groups columns fall, and so how many multiprocessors work.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from warpsmith.schedulers.multiprocessor import power_of_two_above
from warpsmith.schedulers.outer_persistent.shapes import (
    MOST_OF_ONE,
    PIECES,
    SECTOR_BYTES,
    share_of,
)
from warpsmith.targets.family import WARP
from warpsmith.targets.target import Target
from warpsmith.values import dataclass

WIDEST, USUAL = 64, 16
"""Threads side by side: at most, and among equals."""

WIDE_BYTES = 16
"""Of the widest access."""

FEW, MANY, MOST = 256, 512, 1024
"""Threads of a block: where it has little to load, or is not alone; otherwise; and of accesses so
narrow that twice as many ask for no more than `ON_THE_WAY`."""

ON_THE_WAY = 32768
"""Bytes that a multiprocessor asks for at a time where it has all that it can get of the memory."""

MANY_PASSES = 2
"""Of a block of many threads, behind which they are worth their sums. An estimate."""

TALLEST = 64
"""Threads one below the other, where columns are not shared."""

MOST_LEFT = 7 / 8
"""Of the threads, how many are left where the others are few."""

GUARDED = 1.5
"""Times as long where lanes stand beside the columns, with predicates for all accesses and sums:
norms of 96 and 480 channels were read at half the rate of those of 64 (one H200, 2026-11-26)."""

JOIN_US = 2.0
"""What blocks that share columns take to add what they have (docs/lessons/reductions.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tall:
    """Columns that are reduced.

    Attributes:
        rows: elements of a column.
        vectors: how many accesses a row of the columns is.
        access: bytes of one, of the widest input.
        loads: bytes of one in all inputs.
        unroll: accesses of a thread along a column, of each input.
    """

    rows: int
    vectors: int
    access: int
    loads: int
    unroll: int


def tall_block(tall: Tall, target: Target) -> tuple[int, int]:
    """(block_x, block_y): blocks are narrow where that gives every multiprocessor columns of its
    own, so that none are split; else as wide as leaves few multiprocessors without.
    """
    lanes = min(_widths(tall), key=lambda lanes: _merit(tall, lanes, target))
    groups = -(-tall.vectors // lanes)
    shared = target.sm_count // groups
    bytes_each = tall.rows * lanes * tall.loads / max(1, shared)
    pass_bytes = MANY * tall.unroll * tall.loads
    if shared > 1:
        threads = MANY if bytes_each > MANY_PASSES * pass_bytes else FEW
        narrow = threads == MANY and 2 * pass_bytes <= ON_THE_WAY
        return lanes, _height(lanes, MOST if narrow else threads)
    return lanes, _height(lanes, _threads_alone(lanes, groups, target))


def _threads_alone(lanes: int, groups: int, target: Target) -> int:
    """Threads of blocks that share no columns."""
    return FEW if groups > target.sm_count else min(MANY, TALLEST * lanes)


def _merit(tall: Tall, lanes: int, target: Target) -> tuple[float, int]:
    """The time of blocks so wide, and how far that is from what is usual: the less, the better."""
    groups = -(-tall.vectors // lanes)
    shared = max(1, target.sm_count // groups)
    turns = -(-groups * shared // target.sm_count)
    busy = min(1.0, MOST_OF_ONE * groups * shared / (turns * target.sm_count))
    if shared == 1 and groups <= target.sm_count:
        asked = _threads_alone(lanes, groups, target) * tall.unroll * tall.loads
        busy *= min(1.0, asked / ON_THE_WAY)
    piece = PIECES[0][0] if groups == 1 else lanes * tall.access
    more = 1.0 if tall.vectors % lanes == 0 else GUARDED * lanes * groups / tall.vectors
    moved = tall.rows * tall.vectors * tall.loads / target.rates.memory
    return moved * more / (busy * share_of(piece)) + (JOIN_US if shared > 1 else 0.0), abs(
        lanes - USUAL
    )


def _widths(tall: Tall) -> Iterator[int]:
    """Powers of two, and what divides the vectors: not of narrow ones, which come with columns of
    any number, so that each would have a kernel of its own.
    """
    most = min(WIDEST, power_of_two_above(tall.vectors))
    wide, least = tall.access >= WIDE_BYTES, min(most, -(-SECTOR_BYTES // tall.access))
    for lanes in range(least, most + 1):
        if lanes == power_of_two_above(lanes) or (wide and tall.vectors % lanes == 0):
            yield lanes


def _height(lanes: int, threads: int) -> int:
    """Threads one below the other: whole warps, if that leaves out few of them."""
    height = max(1, threads // lanes)
    whole = height - height % (WARP // math.gcd(WARP, lanes))
    return whole if whole > MOST_LEFT * height else height
