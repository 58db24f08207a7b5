"""What rows that begin anywhere cost the L2 and the memory."""

from __future__ import annotations

import numpy as np

from warpsmith.schedulers.matmul.params import Count, Numbers
from warpsmith.schedulers.matmul.ways import Times

DEPTH_BYTES = 128
"""Bytes of k that a stage holds of each row and column: what a swizzle permutes."""

BEGUN_LINE = 0.37
BEGUN_SECTOR = 1.39
"""Of a line of the L2, what one more costs that a row of a box touches than its bytes would fill,
where it begins at a multiple of 32 bytes, and what it costs besides that it begins at others."""

SECTOR = 32
"""Bytes of a line that the L2 reads and writes at once."""

L2_LINE = 128
"""Bytes of which the L2 is asked for at once."""

SHARED_SECTOR = 2.7
"""How many more sectors one is as that rows of two chunks share."""


def lines_touched(edge: Count, pitch: Count) -> Times:
    """Lines of the L2 that rows of a box touch for each `DEPTH_BYTES` that they bring, in the mean.

    Args:
        edge: bytes that lie together, which come in pieces of as many as a swizzle permutes.
        pitch: bytes from one of these to the next, or from where one tile's begin to another's:
            what all are multiples of.
    """
    piece = np.gcd(edge, DEPTH_BYTES)
    step = np.gcd(pitch, piece)
    return np.asarray((1 + (piece - step) / L2_LINE) * DEPTH_BYTES / piece)


def rows_cost(edge: Count, pitch: Count) -> Times:
    """Lines of the L2 that rows of a box are as, for each `DEPTH_BYTES` that they bring.

    Args:
        edge, pitch: as of `lines_touched`.
    """
    piece = np.gcd(edge, DEPTH_BYTES)
    step = np.gcd(pitch, piece)
    begun = DEPTH_BYTES / piece * (1 - np.minimum(step, SECTOR) / SECTOR)
    return 1 + BEGUN_LINE * (lines_touched(edge, pitch) - 1) + BEGUN_SECTOR * begun


def sectors_written(chunk: Numbers, n: Count) -> Times:
    """Sectors of memory that a result's chunks are as, for each that they would fill: rows of n
    elements of 16 bits may begin inside one.
    """
    shared = 1 - np.gcd(2 * n, SECTOR) / SECTOR
    return np.asarray(
        1 + (chunk > 0) * (SHARED_SECTOR * shared * SECTOR / (2 * np.maximum(chunk, 1)))
    )
