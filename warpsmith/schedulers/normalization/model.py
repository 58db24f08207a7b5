"""How long rows that are needed again take on an H200: a model of one multiprocessor.

The constants are those of the smallest error, and of the least time lost by choosing with them,
over timings of norms and softmaxes on one H200, with the L2 flushed (2026-11-21; bfloat16 and
float, rows of 1000 to 262144 elements): 1562 in waves and 554 with a role that loads, those that
took at most 1.3 times as long as the fastest. Half of them are predicted within 2.5 %, nine of ten
within 10 %. What they have for the fastest takes 1.2 % longer than it, in the mean of 103 sizes and
programs, and 8.5 % at worst.
docs/lessons/norms_forward.md tells how; tests/schedulers/timings/norm_forward.json has the timings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from warpsmith.schedulers import timed
from warpsmith.schedulers.multiprocessor import together
from warpsmith.targets.target import Target

START_US = 4.61
"""Launch, the first rows' way and the end: what no size changes."""

MEMORY_SHARE = 0.902727
"""Of the memory's rate, at which rows are read and written."""

LOADED_SHARE = 1.200921
"""Of a multiprocessor's part of that rate, at which its blocks load rows while nothing of them is
computed."""

MEETING_US = 0.21
"""A reduction across a block, for each doubling of its warps."""

CLUSTER_US = 0.2
"""What it takes beside that, for each doubling of a cluster's blocks."""

OPERATION_US = 0.001
COSTLY_US = 0.0046
"""An operation on an element of a thread, and what a costly one takes beside that."""

COSTLY_INSTRUCTIONS = 9.4
"""Of the schedulers' time; other operations take none that they would lack."""

MASKED_WORK = 0.3
"""More operations where threads have not exactly a row."""

TAIL_SHARE = 0.82
"""Of a block's time, in which the last blocks are alone."""

SHARPNESS = 8.94
"""Of the maximum of what limits a multiprocessor: the longest is nearly all."""

RELOAD_LOSS = 0.03
AGAIN_LOSS = 0.08
MASKED_LOSS = 0.017
CLUSTER_LOSS = 0.018
WIDE_LOSS = 0.037
DEEP_LOSS = 0.0048
ALONE_LOSS = 0.012
"""More of the time of rows: where what they all share is loaded where it is used; where costly
values are computed again; where threads have not exactly a row; for each doubling of a cluster's
blocks, and of MANY_THREADS; for MANY_ELEMENTS of a thread beyond the first so many; and where a
multiprocessor has one row at once."""

MANY_THREADS = 512
MANY_ELEMENTS = 32

ROLE_START_US = 6.34
ROLE_MEMORY_SHARE = 0.837089
"""The same where a role loads rows. Blocks that go round are slower: they keep in step."""

ROLE_TURN_US = 0.05
ROLE_MEETING_US = 0.073
ROLE_COSTLY_US = 0.0022
ROLE_INSTRUCTIONS = 0.404
ROLE_COSTLY_INSTRUCTIONS = 3.6
REREAD_SHARE = 0.24
ROLE_SHARPNESS = 2.1
"""The same amounts for a group of a role's readers; rows read again from their stage take more
instructions."""

ROLE_ACCESS_US = 0.007
ROLE_ACCESS_INSTRUCTIONS = 3.3
"""A thread's access to a row that comes in whole chunks, and so is narrow: in a turn, and of the
schedulers' time. With these, half of 277 timings are predicted within 4 %
(docs/lessons/row_lengths.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work(timed.Work):
    """What is to be done.

    Attributes:
        stages: what is cut by reductions that depend on one another, and the last.
        costly: of the operations.
    """

    stages: int
    costly: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Who does it.

    Attributes:
        threads: of a row, or of a block's part of it.
        elements: of all its rows in one thread.
        at_once: rows, or parts of them, that a multiprocessor has.
        cluster: blocks that share a row.
        reload_weights: what all rows share is loaded where it is used.
        again: costly values are computed again.
        masked: threads have not exactly a row.
        role: a role loads rows for groups that go round them.
        reread: they read them from shared memory in each stage.
        shared: what all rows share waits in shared memory.
        blocks: of a multiprocessor, whose groups take turns on what a role loads; else 1.
        accesses: of a thread to each row that comes in whole chunks; 0 where rows do not.
    """

    threads: int
    elements: int
    at_once: int
    cluster: int = 1
    reload_weights: bool = False
    again: bool = False
    masked: bool = False
    role: bool = False
    reread: bool = False
    shared: bool = False
    blocks: int = 1
    accesses: int = 0


def predicted_us(work: Work, shape: Shape, target: Target) -> float:
    """Microseconds from the launch to the end."""
    return (_by_role if shape.role else _in_waves)(work, shape, target)


def least_in_waves(work: Work, target: Target) -> float:
    """Microseconds that moving the rows takes where blocks have one each."""
    return START_US + _bytes(work) / (MEMORY_SHARE * target.rates.memory)


def least_by_role(work: Work, target: Target) -> float:
    """Microseconds that no shape takes less than where a role loads the rows."""
    return ROLE_START_US + _bytes(work) / (ROLE_MEMORY_SHARE * target.rates.memory)


def _in_waves(work: Work, shape: Shape, target: Target) -> float:
    masked = 1 + (MASKED_WORK if shape.masked else 0.0)
    each = OPERATION_US * work.operations + COSTLY_US * work.costly
    meeting = MEETING_US * _doublings(shape.threads / 32) + CLUSTER_US * _doublings(shape.cluster)
    part = work.length / shape.cluster * work.loaded
    turn = (
        (work.stages - 1) * meeting
        + masked * shape.elements * each
        + shape.at_once * part / (LOADED_SHARE * target.sm_memory)
    )
    turns = max(1.0, work.rows * shape.cluster / (target.sm_count * shape.at_once))
    issued = masked * COSTLY_INSTRUCTIONS * work.costly
    body = together(
        SHARPNESS,
        _bytes(work) / (MEMORY_SHARE * target.rates.memory),
        work.rows * work.length / 32 / target.sm_count * issued / target.sm_issues,
        turns * turn,
    )
    return START_US + TAIL_SHARE * turn + (1 + _loss(shape)) * body


def _loss(shape: Shape) -> float:
    """Of the time of rows, what certain shapes take more."""
    return (
        (RELOAD_LOSS if shape.reload_weights else 0.0)
        + (AGAIN_LOSS if shape.again else 0.0)
        + (MASKED_LOSS if shape.masked else 0.0)
        + (ALONE_LOSS if shape.at_once == 1 else 0.0)
        + CLUSTER_LOSS * _doublings(shape.cluster)
        + WIDE_LOSS * _doublings(shape.threads / MANY_THREADS)
        + DEEP_LOSS * max(0.0, shape.elements / MANY_ELEMENTS - 1)
    )


def _by_role(work: Work, shape: Shape, target: Target) -> float:
    masked = 1 + (MASKED_WORK if shape.masked else 0.0)
    reread = 1 + (REREAD_SHARE if shape.reread else 0.0)
    inputs = work.loaded / max(1, work.stored) * (work.stages if shape.reread else 1)
    accesses = shape.accesses * (inputs + 1)
    turn = (
        ROLE_TURN_US
        + ROLE_ACCESS_US * accesses
        + (work.stages - 1) * ROLE_MEETING_US * _doublings(shape.threads / 32)
        + masked * shape.elements * ROLE_COSTLY_US * work.costly
    )
    issued = ROLE_INSTRUCTIONS * reread * work.operations + ROLE_COSTLY_INSTRUCTIONS * work.costly
    issued += ROLE_ACCESS_INSTRUCTIONS * accesses / shape.elements
    body = together(
        ROLE_SHARPNESS,
        _bytes(work) / (ROLE_MEMORY_SHARE * target.rates.memory),
        work.rows * work.length / 32 / target.sm_count * masked * issued / target.sm_issues,
        math.ceil(work.rows / (target.sm_count * shape.at_once)) * turn,
    )
    return ROLE_START_US + body


def _bytes(work: Work) -> int:
    """Of rows, read and written."""
    return work.rows * work.length * (work.loaded + work.stored)


def _doublings(count: float) -> float:
    return math.log2(max(1.0, count))
