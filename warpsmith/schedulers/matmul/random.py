"""How much of what draws behind a product tensor cores wait for."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from warpsmith.ir.exprs import Pointwise
from warpsmith.ir.random_blocks import OF_BLOCK
from warpsmith.ir.tensor import Operation
from warpsmith.schedulers.matmul.threads import GROUP_THREADS
from warpsmith.schedulers.matmul.ways import Times, Ways

RANDOM = 11
"""Instructions that an operation which draws is as, of an element: twelve rounds of a block."""

KEPT = "kept"
"""The draws that groups which share a tile make beside its products, some in each step over k."""


def random_beside(operations: Iterable[Operation]) -> int:
    """Instructions on an element, besides an operation each, of those that may be made so."""
    kept = sum(isinstance(op, Pointwise) and op.op == KEPT for op in operations)
    return (RANDOM - 1) * kept


def share_behind(ways: Ways, k: int) -> Times:
    """Of these the share that stands behind the products all the same: what the pass `random_ahead`
    leaves there, one draw of a group for each step that a tile lacks, and all where groups take
    turns, blocks have parts of k, or operands are swapped.
    """
    beside = (ways.ping_pong == 0) & (ways.splits * ways.parts == 1) & (ways.swapped == 0)
    draws = ways.rows * ways.columns / (ways.groups * GROUP_THREADS * OF_BLOCK[KEPT])
    lacking = np.maximum(draws - np.ceil(k / ways.depth), 0) / draws
    return np.asarray(np.where(beside, lacking, 1.0))
