"""What passes through the L2 while a product loops over its tiles, and what stays there."""

from __future__ import annotations

import numpy as np

from warpsmith.schedulers.matmul.params import MatmulParams, Numbers
from warpsmith.schedulers.matmul.sectors import L2_LINE
from warpsmith.schedulers.matmul.ways import Times
from warpsmith.targets.target import Target

HIGH = 1 / 5
KEPT = 1 / 2
"""Of the L2, what the rows of a group of tiles take that is higher than wide; and what stays there
while something else passes. Energy of an H200's products says that its 50 MB are as 30: some lines
are in both of its halves (docs/lessons/power.md)."""


def rows_together(elements: Numbers, line: int, target: Target) -> Times:
    """Rows of a group of tiles: a wave of them, of so many elements, is as high as wide, so that it
    reads few rows and columns; or higher, as far as rows stay in the L2 while columns go by.

    Args:
        line: bytes of a row of an operand; 0 where nobody knows.
    """
    return np.asarray(np.maximum(np.sqrt(elements), HIGH * target.l2_bytes / line if line else 0))


def read_once(
    params: MatmulParams,
    sizes: tuple[int, int, int],
    turned: bool,
    element: int,
    batches: int,
    target: Target,
) -> tuple[bool, bool]:
    """Whether what is loaded of the first operand, and of the second, is the first to leave the L2.

    What one cluster alone reads is. Where the L2 has room for the rows of a group, but not for all,
    waves of tiles read these again, while columns go by: then the second operand is, too, if its
    lines are whole ones of the L2. Of others the next tile has a part, and products took 2 %
    longer.

    Args:
        sizes: m, n and k.
        turned: whether the second operand lies along n.
        element, batches: as of the work, whose sizes these are.
    """
    (m, n, k), (rows, columns, _), (down, across) = sizes, params.tile, params.cluster
    first, second = n <= columns * across, m <= rows * down
    line, room = k * element, KEPT * target.l2_bytes
    along = n * element if turned else line
    passes = n * down * params.group > params.blocks * columns  # more than a wave has
    passes = passes and not params.in_parts and batches * (m + n) * line > target.l2_bytes
    stays = rows * down * params.group * line <= room
    return first, second or (passes and stays and along % L2_LINE == 0)
