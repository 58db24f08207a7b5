"""How long kernels of rows take: one model of a multiprocessor, for every way to have rows.

Three things limit a multiprocessor: what the memory moves, what its schedulers issue, and what its
blocks wait for. The longest is nearly the time; where others come near, they add to it. Before and
behind that are a launch, the first rows' way, the last blocks alone, and a second kernel that adds
sums of columns. Of few rows none is hidden, and `few.py` adds them up. A target says the rates; the
constants say which share of them kernels get, and what nothing hides. They were fitted together to
timings of norms and softmaxes, forward and backward, most of them at sizes drawn at random
(docs/lessons/row_lengths.md; tests/schedulers).
"""

from __future__ import annotations

import math

from warpsmith.schedulers.multiprocessor import together
from warpsmith.schedulers.rows.few import FEW_START_US, few_us, has_few
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.rows.resident import REGISTER_BYTES
from warpsmith.schedulers.rows.work import MANY_THREADS, VECTOR_BYTES, Work, doublings
from warpsmith.targets.family import WARP
from warpsmith.targets.target import Target

START_US = 3.68
"""Launch, the first rows' way and the end: what no size changes."""

SECOND_US = 2.73
"""A second kernel, which adds the sums of columns that blocks leave."""

ROLE_US, SUMS_ROLE_US = 1.3, 1.6
"""A role's start, and beside sums of columns: there it was chosen where others were faster."""

MEMORY_SHARE = 0.949
TURNS_SHARE = 0.78
"""Of the memory's rate, at which rows move: where each block has one, and where blocks loop over
rows, and keep in step."""

EVICT_LAST_TIMES = 1.1
"""Times that share beside sums of columns, where what is read is the last that leaves the L2."""

ASKED_SHARE = 2.09
"""Of a multiprocessor's part of the memory's rate, at which its blocks load rows while nothing of
them is computed."""

WEIGHTS_SHARE = 0.204
"""Of the time of loading as many bytes of rows, what inputs that all rows share take."""

LATENCY_US = 0.5
"""From an access to the memory until its data is there: of each row that threads load themselves,
and of the first that is loaded ahead."""

FIRST_SHARE = 0.671
"""Of what one multiprocessor loads while few do, at which stages are filled for the first time."""

MEETING_US = 0.119
CLUSTER_US = 0.596
"""A reduction across a block, for each doubling of its warps; and across a cluster, beside that."""

COPY_US = 0.0525
"""Of each turn, a copy that one of the threads that compute asks for: the others wait for it."""

OPERATION_US = 0.00131
"""An operation on an element of a thread: what nothing of its own block hides."""

INSTRUCTIONS = 0.928
COSTLY_INSTRUCTIONS = 0.549
"""An operation on an element, and what a costly one takes beside that, of the schedulers' time."""

MASKED_INSTRUCTIONS = 2.71
"""More of an access where threads have not exactly a row."""

ENDS_INSTRUCTIONS, SHIFTS_INSTRUCTIONS = 4.0, 5.0
"""More where vectors go across the begins and ends of rows: of each element of the passes that ask
for these, the first and those that not all blocks have whole, for each sum and the result; and of
each byte of what all rows share, which is put together of several vectors."""

ACROSS_LOSS, ACROSS_CLUSTER_LOSS, ACROSS_ALONE_LOSS = 0.04, 0.08, 0.12
"""More of the time there, and in clusters and where a multiprocessor has one block. These five were
fitted to 640 timings at odd lengths on an H200 (docs/lessons/odd_rows.md)."""

TURN_ENDS_INSTRUCTIONS, TURN_ENDS_PASSES, ACROSS_TURNS_LOSS = 1.0, 2, 0.03
"""The same of elements of so many passes, and of the time, beside sums of columns (timings of 26
odd lengths on an H200, 2026-11-26)."""

TURN_INSTRUCTIONS = 187.0
SUM_INSTRUCTIONS = 34.7
"""Of a warp in each turn of a persistent block, and for each sum of a row."""

SUMS_BYTES = 100_000_000
SUMS_OPERATION_US, SUMS_TURN_INSTRUCTIONS, LONE_LOSS = 0.0007, 70.0, 0.02
"""OPERATION_US and TURN_INSTRUCTIONS of so many bytes of rows of several sums, beside those of
columns, the second for one warp of a row and for each doubling of its warps: few threads with many
elements are better there; and more of the time, for MANY_ELEMENTS beyond the first, of a row that
is alone on a multiprocessor (H200, docs/lessons/norms_backward.md)."""

SHARPNESS = 4.28
"""Of the maximum of what limits a multiprocessor."""

TAIL_SHARE = 1.08
"""Of a block's time, in which the last blocks are alone."""

MOST_FEW, LATER_US = 24, 0.8
"""Of so many rows of a multiprocessor, where blocks have one each and not all are there at once:
the others begin when these have ended. Of more none ever are (162 norms and softmaxes on an H100
and two H200, 2026-11-26, at least four shapes each: of 0, 0.3, 0.5 and 0.8 this chose best).
"""

RELOAD_LOSS = 0.0426
KEPT_LOSS = 0.0107
WIDE_LOSS = 0.00946
ALONE_LOSS = 0.0871
DEEP_LOSS = 0.0199
BY_THREADS_LOSS = 0.026
"""More of the time: where what all rows share is loaded where it is used, and, for each byte of it,
where it is loaded first by whole warps, beside elements narrower than a register; for each doubling
of a row's MANY_THREADS; where a multiprocessor has one block at once, of one row after the other;
for MANY_ELEMENTS of a thread beyond the first so many; and where threads copy rows to the ring."""

MANY_ELEMENTS = 32

CROWD_LOSS = 0.116
ENOUGH_BYTES = 131072
"""More of the time for each ENOUGH_BYTES of a multiprocessor's rings beyond the first, where rows
are many."""

CROWD_US = 0.757
FEW_BYTES = 65536
"""For the square of the FEW_BYTES of rings beyond the first, where rows are few: all of it is on
its way before the first row is there."""

SUMS_SHARE = 0.504
"""Of the L2's rate, at which the sums of blocks are written and read again."""

DOUBLING_US = 0.302
JOINED_SHARE = 0.32
"""For each doubling of the rows side by side whose sums a block adds at its end; and of what one
multiprocessor loads while few do, at which it hands over these sums."""

NARROW_LOSS = 0.098
CHUNKS_LOSS = 0.0169
"""More of the time for each halving of VECTOR_BYTES: where threads load rows themselves, and where
they read them from whole chunks."""

PIECES_LOSS = 0.1
"""More of the time where rows lie in pieces, of which each access computes its place (72 times of
batch norms on an H200, 2026-11-26, which the model then meets by 12 %, root mean square)."""

LINE_BYTES, ASKED_BYTES = 128, 65536
MORE_LOSS = 0.115
"""With narrower accesses, each of a warp counts as LINE_BYTES or more, and asking for more than
ASKED_BYTES of these at once is no gain: more of the time for each doubling."""


def least_in_turns(work: Work, target: Target) -> float:
    """Microseconds that no shape takes less than where blocks loop over rows that a role loads."""
    return START_US + _role(work) + _memory(work, target, True)


def predicted_us(work: Work, params: RowParams, target: Target) -> float:
    """Microseconds from the launch to the end, of the second kernel, too."""
    few = has_few(work, target)
    if few and not params.ring:
        return few_us(work, params, target)
    in_turns = _in_turns(work, params)
    teams = max(1, params.blocks_per_sm * target.teams(params.cluster))
    if in_turns:
        teams = max(1, min(teams, math.ceil(work.rows / params.at_once)))
    turns = work.rows / (teams * params.at_once)
    turns = math.ceil(turns) if in_turns else max(1.0, turns)
    first = params.blocks_per_sm * params.at_once * work.length / params.cluster * work.loaded
    ring = params.ring * first / (params.block_y if params.warp_specialize else 1)
    wait = _turn(work, params) + _exposed(work, params, target)
    held = teams * params.cluster / target.sm_count if in_turns else params.blocks_per_sm
    body = together(
        SHARPNESS,
        _memory(work, target, in_turns),
        turns * _instructions(work, params, held, target) / target.sm_issues,
        turns * wait,
    )
    total = (
        (FEW_START_US if few else START_US)
        + (_role(work) if params.warp_specialize else 0.0)
        + (1 + _loss(work, params, ring)) * body
    )
    if not in_turns:
        rounds = work.rows / (teams * params.at_once)
        later = rounds > 1 and work.rows <= MOST_FEW * target.sm_count
        return total + TAIL_SHARE * wait * min(1.0, rounds) + LATER_US * later
    if params.ring:
        crowd = 0.0 if work.evict_last else max(0.0, ring / FEW_BYTES - 1)
        total += LATENCY_US + first / (FIRST_SHARE * target.rates.sm_load) + CROWD_US * crowd**2
    return total + _sums(work, params, teams, target)


def _role(work: Work) -> float:
    return SUMS_ROLE_US if work.summed else ROLE_US


def _in_turns(work: Work, params: RowParams) -> bool:
    """Whether blocks loop over rows."""
    return work.summed > 0 or params.ring > 0


def _of_sums(work: Work) -> bool:
    """Whether many rows have several sums, beside those of columns."""
    moved = work.rows * work.length * (work.loaded + work.stored)
    return work.summed > 0 and work.sums > 1 and moved >= SUMS_BYTES


def _memory(work: Work, target: Target, in_turns: bool) -> float:
    """Microseconds that rows take on their ways from and to memory."""
    share = TURNS_SHARE if in_turns else MEMORY_SHARE
    share *= EVICT_LAST_TIMES if work.summed and work.evict_last else 1.0
    moved = work.rows * work.length * (work.loaded + work.stored)
    return moved / (share * target.rates.memory)


def _turn(work: Work, params: RowParams) -> float:
    """Microseconds from a row's coming to its end: what one block does."""
    meeting = MEETING_US * doublings(params.block_x / WARP)
    meeting += CLUSTER_US if params.cluster > 1 else 0.0
    alone = params.ring > 0 and not (params.warp_specialize or params.by_threads)
    copies = params.at_once * work.loaded / work.item if alone else 0.0
    each = SUMS_OPERATION_US if _of_sums(work) else OPERATION_US
    computed = params.row_elements * each * work.operations
    return COPY_US * copies + (work.stages - 1) * meeting + computed


def _exposed(work: Work, params: RowParams, target: Target) -> float:
    """Microseconds in which threads wait for their own loads."""
    if params.ring:
        return 0.0
    again = not (_in_turns(work, params) or params.weights_in_shared)
    weights = WEIGHTS_SHARE * work.weights / params.rows_per_thread if again else 0.0
    elements = params.blocks_per_sm * params.at_once * work.length / params.cluster
    return LATENCY_US + elements * (work.loaded + weights) / (ASKED_SHARE * target.sm_memory)


def _instructions(work: Work, params: RowParams, held: float, target: Target) -> float:
    """What a multiprocessor issues in a turn of the blocks that it has, if each of its schedulers
    had as many warps as the one that has most.
    """
    warps = max(1.0, held * params.block_y * params.block_x / WARP)
    whole, schedulers = math.ceil(warps), target.family.limits.partitions
    uneven = -(-whole // schedulers) * schedulers / whole
    inputs = work.loaded / work.item * (work.stages if params.reread else 1)
    accesses = params.rows_per_thread * params.unroll * (inputs + work.stored / work.item)
    each = SUM_INSTRUCTIONS * work.sums * params.rows_per_thread
    turn = TURN_INSTRUCTIONS
    if _of_sums(work):
        turn = SUMS_TURN_INSTRUCTIONS * (1 + doublings(params.block_x / WARP))
    each += turn if _in_turns(work, params) else 0.0
    each += MASKED_INSTRUCTIONS * accesses if not params.exact else 0.0
    part = min(params.block_x * params.unroll * params.vector, work.length / params.cluster)
    done = INSTRUCTIONS * work.operations + COSTLY_INSTRUCTIONS * work.costly
    if params.across:
        some = TURN_ENDS_PASSES if work.summed else params.unroll - params.full + 1
        ends = params.unroll if work.in_pieces else min(some, params.unroll)
        passes = ends * params.rows_per_thread
        at_end = TURN_ENDS_INSTRUCTIONS if work.summed else ENDS_INSTRUCTIONS
        each += at_end * passes * params.vector * (work.sums + 1)
        done += SHIFTS_INSTRUCTIONS * work.weights
    return uneven * (warps * each + held * params.at_once * part / WARP * done)


def _loss(work: Work, params: RowParams, ring: float) -> float:
    """Of the time of rows, what certain shapes take more."""
    loss = RELOAD_LOSS if params.reload_weights and not params.weights_in_shared else 0.0
    if not (params.reload_weights or _in_turns(work, params)):
        narrow = work.item < REGISTER_BYTES and params.block_x >= WARP
        loss += KEPT_LOSS * work.weights if narrow else 0.0
    loss += WIDE_LOSS * doublings(params.block_x / MANY_THREADS)
    alone = params.blocks_per_sm == 1 and not _in_turns(work, params)
    loss += ALONE_LOSS if alone else 0.0
    loss += PIECES_LOSS if work.in_pieces else 0.0
    loss += BY_THREADS_LOSS if params.by_threads else 0.0
    if params.across and work.summed:
        loss += ACROSS_TURNS_LOSS
    elif params.across:
        loss += ACROSS_LOSS + (ACROSS_CLUSTER_LOSS if params.cluster > 1 else 0.0)
        loss += ACROSS_ALONE_LOSS if alone else 0.0
    deep = max(0.0, params.row_elements / MANY_ELEMENTS - 1)
    lone = _of_sums(work) and params.blocks_per_sm * params.at_once == 1
    loss += (DEEP_LOSS + (LONE_LOSS if lone else 0.0)) * deep
    loss += CROWD_LOSS * max(0.0, ring / ENOUGH_BYTES - 1) if work.evict_last else 0.0
    access = params.vector * work.item
    if access >= VECTOR_BYTES or (params.ring and not params.chunks):
        return loss
    if params.ring:
        return loss + CHUNKS_LOSS * doublings(VECTOR_BYTES / access)
    asked = (
        params.blocks_per_sm
        * params.block_y
        * params.block_x
        / WARP
        * params.rows_per_thread
        * params.unroll
    )
    asked *= work.loaded / work.item * max(LINE_BYTES, WARP * access)
    loss += MORE_LOSS * doublings(asked / ASKED_BYTES)
    return loss + NARROW_LOSS * doublings(VECTOR_BYTES / access)


def _sums(work: Work, params: RowParams, teams: int, target: Target) -> float:
    """Microseconds that sums of columns take when all rows are done."""
    if not work.summed:
        return 0.0
    left = teams * (params.block_y if params.apart else 1) * work.length * work.summed
    joined = 1 if params.apart else params.block_y
    handed = (joined - 1) * params.blocks_per_sm * work.length / params.cluster * work.summed
    adding = DOUBLING_US * doublings(joined) + handed / (JOINED_SHARE * target.rates.sm_load)
    return SECOND_US + adding + 2 * left / (SUMS_SHARE * target.rates.l2)
