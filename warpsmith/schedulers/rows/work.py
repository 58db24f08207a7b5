"""What is to be done with rows, as models of their times see it."""

from __future__ import annotations

import math

from warpsmith.values import dataclass

VECTOR_BYTES = 16
"""Of an access, from which on loads saturate memory with few of them on their way."""

MANY_THREADS = 256
"""Of a row, of which each doubling takes more time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is to be done with rows.

    Attributes:
        rows, length: of the tensors.
        loaded, stored: bytes of an element of a row.
        item: bytes of the widest element of an input of rows.
        weights: bytes of an element of what all rows share.
        stages: what is cut by reductions that depend on one another, and the last.
        sums: reductions of each row.
        operations: on each element of a row, in all stages.
        costly: how many of these take ten instructions or more.
        summed: bytes of running sums for each column; 0 where columns are not summed.
        evict_last: what is read is the last that leaves the L2.
        in_pieces: a row lies in several pieces.
    """

    rows: int
    length: int
    loaded: int
    stored: int
    item: int
    weights: int
    stages: int
    sums: int
    operations: int
    costly: int
    summed: int
    evict_last: bool
    in_pieces: bool = False


def doublings(count: float) -> float:
    """How often one doubles until there are so many."""
    return math.log2(max(1.0, count))
