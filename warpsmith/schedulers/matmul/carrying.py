"""How much longer products with scales along k take, whose threads add each step's to sums of their
own (`blocks.by_blocks`): an H200, docs/lessons/float8.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpsmith.schedulers.matmul.params import Count, Flags
from warpsmith.schedulers.matmul.ways import Times, Ways
from warpsmith.targets.target import Target

SUMMED, APART, ALIKE = 1.05, 0.05, 0.7
SUM_CYCLES, COLUMN_CYCLES = 80, 2
"""How much longer products take, power for one, and more where rows have scales of their own; and
of the pauses in which a group adds, how many another one's products do not fill: tensor cores have
2 cycles for a column of a step, threads an addition for two and 80 cycles of waits. Of 8192 x 8192
x 8192 and two more 128 x 192, 192 x 128 and 256 x 128 took 1, 0.99 and 1.03 for each element of a
tile, 1, 1 and 1.03 so; rows took 3 to 7 % more in tiles of 128 rows and more."""

READ, READ_FREELY = 1.0, 1 / 64
"""The same for each scale that threads read for a column in a step, of more than so many: 128 x 160
takes 1 to 3 % longer than predicted without, beside 128 x 192, and 256 x 112 up to 8."""

STEP, COLUMN, OWN_SCALE = 190, 2, 2.3
"""Cycles of a step that one group multiplies and adds, however little else it takes: its
instructions, the wait for them, its sums and the next instructions follow each other; those for
each column; and those of a scale that a column has for itself. 64 x 64 takes 0.19 us, 64 x 128
0.29."""

OUTSIDE_US = 0.0012
"""What a row of a tile's box takes more that lies behind the last one: 400 x 1408 x 5888 took 22.7
us in tiles of 128 x 48, of which the last ones have 16 rows, and 17.8 in 64 x 80."""


def longer(ways: Ways, scales: Sequence[Count]) -> Times:
    """How much longer products take than those that tensor cores alone add.

    Args:
        scales: as of `read_each_step`.
    """
    shared, _, rows = scales
    pause = (ways.columns / 2 + SUM_CYCLES) / (COLUMN_CYCLES * ways.columns)
    more = READ * np.maximum(shared / ways.columns - READ_FREELY, 0) + APART * rows / ways.rows
    return np.asarray(SUMMED + more + ALIKE * pause * pause / ways.groups)


def least_step_us(
    ways: Ways, least: Times, m: Count, scales: Sequence[Count], target: Target, rounds: Flags
) -> Times:
    """Microseconds of a step, however little it multiplies.

    Args:
        least: of products that tensor cores alone add.
        scales: as of `read_each_step`.
        rounds: whether blocks loop over several tiles, of which the last rows are one's.
    """
    alone = (STEP + COLUMN * ways.columns) / target.rates.clock
    read = OWN_SCALE * scales[1] / target.rates.clock
    outside = OUTSIDE_US * (-m % ways.rows) * np.where(rounds, ways.rows / np.maximum(m, 1), 1)
    return np.asarray(np.where(ways.groups == 1, alone, least) + read + outside)
