"""Rounds in which blocks loop over tiles, and parts that those of the last one have (stream-K)."""

from __future__ import annotations

from warpsmith.ir import integers
from warpsmith.ir.scalar import Expr

MOST_PARTS = 8
"""Of one tile: the last of its blocks adds up all of them."""


def last_parts(tiles: Expr | int, blocks: Expr | int, steps: Expr | int) -> Expr:
    """How many blocks have a part of each tile that is left behind whole rounds: as many as there
    are for each, and as it has steps.
    """
    rest = integers.maximum(integers.mod(tiles, blocks), 1)
    parts = integers.minimum(integers.floordiv(blocks, rest), integers.minimum(steps, MOST_PARTS))
    return integers.maximum(parts, 1)
