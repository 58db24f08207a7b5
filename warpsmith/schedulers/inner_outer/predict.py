"""How long rows beside sums of columns take on an H200: a model of one multiprocessor.

The constants are those of the smallest error over 943 timings of norms backward on one H200, with
the L2 flushed (2026-11-21): both norms and strategies, bfloat16 and float, 1024 to 32768 rows of
1024 to 16384 columns. Half of them are predicted within 1.7 %, nine of ten within 5.6 %.
docs/lessons/norms.md tells how, and data/norm-backward-params.json has the timings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from warpsmith.schedulers.inner_outer.rows import InnerOuterParams, Rows, length_of, row_count
from warpsmith.schedulers.multiprocessor import ISSUED_PER_US, together
from warpsmith.schedulers.problem import Problem

START_US = 7.47
"""Both kernels' launch, the first rows' way and the last sums': what no size changes."""

BYTES_PER_US = 4.23e6
"""Of rows, read and written."""

ENOUGH_BYTES = 65536
CROWDING = 0.0033
"""Of the time of rows, for each ENOUGH_BYTES of a multiprocessor's rings beyond the first."""

PARTIAL_BYTES_PER_US = 2.86e6
"""Of the sums of blocks, which are written and read again, mostly from the L2."""

FIRST_BYTES_PER_US = 0.1e6
"""Of the rows that a multiprocessor waits for before it has anything to do."""

SUM_US = 0.16
"""For each vector of sums in the second kernel."""

TURN_INSTRUCTIONS = 66
"""Of a warp in each turn: waits, the reduction across the block, addresses."""

INSTRUCTIONS = 1.39
"""For each operation on an element."""

TURN_US = 0.69
"""A turn of one block: what nothing of its own hides."""

OPERATION_US = 0.0004
"""For each operation that a thread does in a turn."""

ROLE_US = 0.21
"""A role's start."""

ROLE_SHARE = 0.01
"""Of the time of rows that a role loads: by so much it took longer than waves, in the median of 195
sizes at which the model makes no difference between the two."""

CACHED_SHARE = 0.14
"""Of the time of rows, where one group of a role's readers first brings all of its only row into
registers, then computes two sums of each column: nothing is left to fill the gaps."""

HALVING_US = 0.46
"""For each time that a block's sums of rows side by side are halved."""

CLUSTER_US = 0.9
"""The blocks of a cluster exchange what they sum of a row, once a turn."""

ONE_SUM = 4
"""Bytes of a running sum."""

SHARPNESS = 4.15
"""Of the maximum of what limits a multiprocessor: the longest is not all, if others come near."""

ROW_CLASSES = ((4, 1), (24, 12), (math.inf, 62))
"""Rows of a multiprocessor up to which parameters are chosen for so many of them: calls with other
row counts take the same kernels, of which there are three."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is to be done.

    Attributes:
        rows, length: of the tensors.
        loaded, stored: bytes of an element of a row.
        summed: bytes of running sums for each column.
        operations: for each element of a row, in all stages.
    """

    rows: int
    length: int
    loaded: int
    stored: int
    summed: int
    operations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Who does it.

    Attributes:
        threads: of a row, or of a block's part of it.
        elements: of a row in one thread.
        side: rows that a block has side by side.
        kept: rows of a thread in one turn.
        slots: of a block's ring, each with the rows of a turn.
        blocks_per_sm: blocks that a multiprocessor holds.
        cluster: blocks that share a row.
        role: a role loads them, and rows side by side are groups that take turns.
        apart: each of these leaves sums of its own.
        cached: a row is brought into registers before anything is done with it.
    """

    threads: int
    elements: int
    side: int
    kept: int
    slots: int
    blocks_per_sm: int
    cluster: int = 1
    role: bool = False
    apart: bool = False
    cached: bool = True


def predicted(rows: Rows, params: InnerOuterParams, problem: Problem) -> float:
    """Microseconds, with as many rows as the class of the call's count has."""
    sm_count = problem.target.sm_count
    each = row_count(rows, problem) / sm_count
    count = next(count for most, count in ROW_CLASSES if each <= most)
    work = Work(
        rows=count * sm_count,
        length=length_of(rows, problem),
        loaded=rows.loaded,
        stored=rows.stored,
        summed=rows.summed,
        operations=rows.operations,
    )
    shape = Shape(
        threads=params.block_x,
        elements=params.unroll * params.vector,
        side=params.block_y,
        kept=params.kept_unroll,
        slots=params.ring,
        blocks_per_sm=params.blocks_per_sm,
        cluster=params.cluster,
        role=params.warp_specialize,
        apart=params.apart,
        cached=not params.reread,
    )
    return predicted_us(work, shape, sm_count)


def predicted_us(work: Work, shape: Shape, sm_count: int) -> float:
    """Microseconds of both kernels, from the first one's launch to the last one's end."""
    at_once = shape.side * shape.kept
    teams = max(1, shape.blocks_per_sm * sm_count // shape.cluster)
    teams = min(teams, max(1, -(-work.rows // at_once)))
    turns = -(-work.rows // (teams * at_once))
    first = shape.blocks_per_sm * at_once * work.length / shape.cluster * work.loaded
    crowd = max(0.0, shape.slots * first / ENOUGH_BYTES - 1)
    memory = work.rows * work.length * (work.loaded + work.stored) / BYTES_PER_US
    warps = teams * shape.cluster / sm_count * shape.side * shape.threads / 32
    done = shape.kept * shape.elements * work.operations
    issue = turns * warps * (TURN_INSTRUCTIONS + INSTRUCTIONS * done) / ISSUED_PER_US
    waits = TURN_US + OPERATION_US * done + (CLUSTER_US if shape.cluster > 1 else 0.0)
    body = together(SHARPNESS, memory * (1 + CROWDING * crowd), issue, turns * waits)
    if shape.role:
        body *= 1 + ROLE_SHARE
    if shape.role and shape.cached and shape.kept == 1 and work.summed > ONE_SUM:
        body *= 1 + CACHED_SHARE
    left = teams * (shape.side if shape.apart else 1) * work.length * work.summed
    halvings = 0.0 if shape.apart else math.log2(shape.side)
    return (
        START_US
        + (ROLE_US if shape.role else 0.0)
        + body
        + first / FIRST_BYTES_PER_US
        + 2 * left / PARTIAL_BYTES_PER_US
        + SUM_US * work.summed / ONE_SUM
        + HALVING_US * halvings
    )
