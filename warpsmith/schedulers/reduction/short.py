"""Blocks for short columns, such as partial sums that another kernel left: one pass takes all.

There is little to read, and most of it lies in L2, so what counts is how often a thread waits for
memory. Here it waits once: all its loads are in flight together, and no column is split over
blocks, whose partial results would have to meet in memory again.
"""

from __future__ import annotations

from warpsmith.schedulers.multiprocessor import power_of_two_above
from warpsmith.schedulers.problem import Problem
from warpsmith.values import dataclass

SHORT = (32, 72, 144, 288, 512)
"""Lengths of columns up to which one block each is laid out. 72, 144 and 288 are for a partial sum
of every two multiprocessors of an H200, which has 132, for one and for two of each."""

MOST_ROWS, MOST_IN_FLIGHT = 9, 18
"""Rows of a thread, and loads of 16 bytes of all inputs that it has in flight: 72 registers."""

WIDEST, MOST_THREADS = 32, 512
"""Threads of a block along the columns, and in all."""

MOST_SHARE = 0.671
"""Of the bytes of the L2: as many as it is likely to have still. So much all inputs are at most if
columns are more than such a block a multiprocessor takes; more than that keeps all of them loading,
in any order."""

SECTOR, REQUEST = 32, 64
"""Bytes that memory is read by, and of a row that a multiprocessor gets from L2 in one cycle."""

START = 50
"""Cycles that a block takes besides, where it is not the only one of its multiprocessor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortBlock:
    """A block of (block_x, block_y) threads, each with `unroll` rows of `vector` columns."""

    vector: int
    block_x: int
    block_y: int
    unroll: int


def short_block(
    rows: int, columns: int, vector: int, loads: list[int], problem: Problem
) -> ShortBlock | None:
    """The block that takes columns whole; None where they are too long or too many.

    Args:
        rows: elements of a column.
        vector: most adjacent columns that an access may have.
        loads: bytes of an element of each input.
    """
    length = next((most for most in SHORT if rows <= most), None)
    if length is None or not loads:
        return None
    vector = min(vector, max(1, 16 // max(loads)))
    vectors, sms = -(-columns // vector), problem.target.sm_count
    each = max(1, min(MOST_ROWS, MOST_IN_FLIGHT // len(loads)))
    block_y = power_of_two_above(-(-length // each))
    widest = min(WIDEST, MOST_THREADS // block_y)
    most_bytes = MOST_SHARE * problem.target.l2_bytes
    if vectors > widest * sms and rows * columns * sum(loads) > most_bytes:
        return None
    block_x = _lanes(rows, vectors, vector * max(loads), sms, widest)
    block_y = max(block_y, 32 // block_x)
    unroll = -(-length // block_y)
    return ShortBlock(vector=vector, block_x=block_x, block_y=block_y, unroll=unroll)


def _lanes(rows: int, vectors: int, bytes_: int, sms: int, widest: int) -> int:
    """Threads along the columns for which the busiest multiprocessor takes least.

    A block loads whole sectors, and is not faster for less than one request a row. Among equals,
    multiprocessors have as few blocks as may be, and as many have one as can.
    """
    most = min(widest, power_of_two_above(vectors))
    lanes = [x for x in (1, 2, 4, 8, 16, 32) if x <= most]
    whole = [x for x in lanes if x * bytes_ >= SECTOR] or lanes[-1:]
    turns = {x: -(-vectors // (x * sms)) for x in whole}
    cycles = {x: turns[x] * (rows * max(REQUEST, x * bytes_) / REQUEST + START) for x in whole}
    return min(whole, key=lambda x: (cycles[x], turns[x], x))
