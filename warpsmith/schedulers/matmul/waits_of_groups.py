"""What tiles of a product by group wait for, besides what others do."""

from __future__ import annotations

import numpy as np

from warpsmith.schedulers.matmul.params import Count
from warpsmith.schedulers.matmul.ways import Times, Ways

LATE_US = 1.65
"""How much later a group's matrix is there, of which one tile alone asks the memory for each part;
where a group has several, each waits for a share of that. 128 groups of 128 rows, 2048 x 2048, take
440 us in tiles of 128 x 128 and 366 in 128 x 256, of which more bytes are on their way."""

FEW_ROWS = 64
"""Of a group in the mean, up to which another latency was fitted (`LONELY` of `model.py`)."""

SEARCH_US, TOLD_US = 0.06, 2.0
"""What a thread takes to look at one more group for the rows of a tile; and until others know where
an agent does that for all of them, ahead of each tile but the first (`lower/rows_ahead.py`): 8
rounds of 48 groups take 18 us less so, 11 of 128 take 96 less, one of a few up to 3 more."""


def late_us(ways: Ways, m: Count, groups: int) -> Times:
    """How much later a tile's part of its group's matrix is there than an operand that many read.

    Args:
        m: rows of all groups, with those that the last tile of each lacks.
    """
    of_each = m / groups
    late = of_each - ways.rows * ways.down / 2 > FEW_ROWS
    return np.asarray(late * LATE_US / np.ceil(np.maximum(of_each / ways.rows, 1)))


def searched_us(ways: Ways, rounds: Times, groups: int) -> Times:
    """How long tensor cores wait in so many rounds of tiles until it is known which rows these
    have.
    """
    searches = np.where(ways.stream, 1, np.maximum(rounds, 1))
    return np.asarray(SEARCH_US * groups * searches + TOLD_US * ways.stream)
