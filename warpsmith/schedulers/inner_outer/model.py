"""How long rows beside sums of columns take on an H200: a model of one multiprocessor.

The constants are those of the smallest error over the norms backward in `timings.json`; TURN_US,
PARTIAL_SHARE and DOUBLING_US those of the least time lost by choosing with them at 207 sizes drawn
at random (`bench unseen --seed 11`). docs/lessons/norms_backward.md tells how.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from warpsmith.schedulers import timed
from warpsmith.schedulers.multiprocessor import together
from warpsmith.targets.family import WARP
from warpsmith.targets.target import Target

START_US = 6.99
"""Both kernels' launch, the first rows' way and the last sums': what no size changes."""

MEMORY_SHARE = 0.862015
EVICT_LAST_SHARE = 0.899403
"""Of the memory's rate, at which rows are read and written; and where what is read is the last that
leaves the L2."""

SEVERAL_SHARE = 0.004
SIDE_SHARE = 0.006
"""Of the time of rows, where a turn has several of them: one behind the other, or side by side."""

FEW_BYTES = 65536
CROWD_US = 0.718
"""For the square of the FEW_BYTES of a multiprocessor's rings beyond the first, where rows are few:
all of it is on its way before the first row is there."""

ENOUGH_BYTES = 131072
CROWDING = 0.04
"""Of the time of rows, for each ENOUGH_BYTES of its rings beyond the first, where they are many."""

PARTIAL_SHARE = 0.3
"""Of the L2's rate, at which the sums of blocks are written and read again."""

FIRST_SHARE = 1.094017
"""Of what one multiprocessor loads while few do, at which the rows come that it waits for before it
has anything to do."""

TURN_INSTRUCTIONS = 60
SUM_INSTRUCTIONS = 66
"""Of a warp in each turn: waits and addresses, and for each sum that it has its part in."""

INSTRUCTIONS = 0.992
"""For each operation on an element."""

SCHEDULERS = 4
"""Of a multiprocessor, each of which issues for every fourth warp: a turn takes as long as the one
that has most of them."""

TURN_US = 0.64
SUM_US = 0.021
"""A turn of one block, and each sum in it: what nothing of its own hides."""

OPERATION_US = 0.0007
"""For each operation that a thread does in a turn."""

ROLE_US = 0.8
"""A role's start."""

DOUBLING_US = 0.62
"""For each doubling of the rows side by side whose sums a block adds at its end."""

CLUSTER_US = 0.71
"""The blocks of a cluster exchange what they sum of a row, once a turn."""

WIDER_SHARE = 0.04
"""Of the time of rows, for each doubling of a cluster's blocks beyond two: such shapes differ by up
to 40 %, which nothing here explains."""

SHARPNESS = 5.16
"""Of the maximum of what limits a multiprocessor: the longest is not all, if others come near."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work(timed.Work):
    """What is to be done.

    Attributes:
        summed: bytes of running sums for each column.
        averaged: sums of each row.
    """

    summed: int
    averaged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Who does it.

    Attributes:
        threads: of a row, or of a block's part of it.
        elements: of a row in one thread.
        side: rows that a block has side by side.
        kept: rows of a thread in one turn.
        stages: of a block's ring, each with the rows of a turn.
        blocks_per_sm: blocks that a multiprocessor holds.
        cluster: blocks that share a row.
        role: a role loads them, and rows side by side are groups that take turns.
        apart: each of these leaves sums of its own.
        reread: rows are read from shared memory again for each reduction.
        chunks: the TMA unit brings whole chunks that rows lie in.
    """

    threads: int
    elements: int
    side: int
    kept: int
    stages: int
    blocks_per_sm: int
    cluster: int = 1
    role: bool = False
    apart: bool = False
    reread: bool = False
    chunks: bool = False


def predicted_us(work: Work, shape: Shape, target: Target) -> float:
    """Microseconds of both kernels, from the first one's launch to the last one's end."""
    at_once = shape.side * shape.kept
    teams = max(1, shape.blocks_per_sm * target.teams(shape.cluster))
    teams = min(teams, max(1, -(-work.rows // at_once)))
    turns = -(-work.rows // (teams * at_once))
    first = shape.blocks_per_sm * at_once * work.length / shape.cluster * work.loaded
    ring = shape.stages * first / (shape.side if shape.role else 1)
    held = teams * shape.cluster / target.sm_count * shape.side
    warps = held * shape.threads / WARP
    uneven = -(-math.ceil(warps) // SCHEDULERS) * SCHEDULERS / math.ceil(warps)
    sums, done = shape.kept * work.averaged, shape.kept * shape.elements * work.operations
    each = TURN_INSTRUCTIONS + SUM_INSTRUCTIONS * sums
    part = held * shape.kept * min(shape.threads * shape.elements, work.length / shape.cluster)
    instructions = uneven * (warps * each + INSTRUCTIONS * work.operations * part / WARP)
    waits = TURN_US + SUM_US * sums + OPERATION_US * done
    waits += CLUSTER_US if shape.cluster > 1 else 0.0
    body = together(
        SHARPNESS,
        _memory(work, shape, ring, target),
        turns * instructions / target.sm_issues,
        turns * waits,
    )
    left = teams * (shape.side if shape.apart else 1) * work.length * work.summed
    doublings = 0.0 if shape.apart else math.log2(shape.side)
    crowd = 0.0 if work.evict_last else max(0.0, ring / FEW_BYTES - 1) ** 2
    return (
        START_US
        + (ROLE_US if shape.role else 0.0)
        + body
        + first / (FIRST_SHARE * target.rates.sm_load)
        + CROWD_US * crowd
        + 2 * left / (PARTIAL_SHARE * target.rates.l2)
        + DOUBLING_US * doublings
    )


def _memory(work: Work, shape: Shape, ring: float, target: Target) -> float:
    """Microseconds that the rows take on their ways from and to memory."""
    share = (SEVERAL_SHARE if shape.kept > 1 else 0.0) + (SIDE_SHARE if shape.side > 1 else 0.0)
    share += CROWDING * max(0.0, ring / ENOUGH_BYTES - 1) if work.evict_last else 0.0
    share += WIDER_SHARE * max(0.0, math.log2(shape.cluster / 2))
    rate = (EVICT_LAST_SHARE if work.evict_last else MEMORY_SHARE) * target.rates.memory
    return work.rows * work.length * (work.loaded + work.stored) / rate * (1 + share)
