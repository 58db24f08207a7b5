"""What passes through the L2 while a product goes round its tiles, and what stays there."""

from __future__ import annotations

import numpy as np

from warpsmith.schedulers.matmul.params import Numbers
from warpsmith.schedulers.matmul.ways import Times
from warpsmith.targets.target import Target

HIGH = 1 / 5
"""Of the L2, what the rows of a group of tiles take that is higher than wide."""


def rows_together(elements: Numbers, line: int, target: Target) -> Times:
    """Rows of a group of tiles: a wave of them, of so many elements, is as high as wide, so that it
    reads few rows and columns; or higher, as far as rows stay in the L2 while columns go by.

    Args:
        line: bytes of a row of an operand; 0 where nobody knows.
    """
    return np.asarray(np.maximum(np.sqrt(elements), HIGH * target.l2_bytes / line if line else 0))
