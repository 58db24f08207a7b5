"""Choice of groups, threads and slots where a role loads the rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from warpsmith.schedulers.inner_outer.heuristic import (
    MOST_BLOCK_THREADS,
    MOST_ELEMENTS,
    REGISTERS_PER_SM,
    RING_BYTES,
    SHARED_FIXED,
    SHARED_PER_SM,
    InnerOuterParams,
    Rows,
    length_of,
    unfit_for_tiles,
)
from warpsmith.schedulers.normalization.resident import Choice
from warpsmith.schedulers.problem import Problem

LOAD_THREADS = 128
"""Of the warp group in which the role that loads is one thread."""

LOAD_REGISTERS = 24
"""Of these threads once the others have got what they can do without."""

FIXED_REGISTERS = 30
"""Registers of a thread for addresses, predicates, results of reductions and cursors."""

ENOUGH_WARPS = 16
MOST_BLOCKS_PER_SM = 2
MOST_GROUPS = 8
"""Each group leaves a row of partial sums, which is written and read again."""


def refusal(rows: Rows, residents: tuple[Choice, ...], problem: Problem) -> str:
    """Why the rows of a call cannot be loaded by a role; empty where they can."""
    reason = unfit_for_tiles(rows, problem)
    if reason:
        return reason
    length = length_of(rows, problem)
    if length == 0:
        return "its rows are empty"
    if choose(rows, residents, problem) is not None:
        return ""
    if 2 * length * rows.loaded + SHARED_FIXED > SHARED_PER_SM:
        return f"two slots of {length * rows.loaded} bytes do not fit in shared memory"
    vectors = length // rows.run.vector(problem)
    if not list(_shapes(vectors, rows.run.vector(problem))):
        return f"no block's threads have exactly the {vectors} vectors of a row"
    return f"rows of {length} elements and the sums of their columns would spill"


def choose(rows: Rows, residents: tuple[Choice, ...], problem: Problem) -> InnerOuterParams | None:
    """The form with most warps at work that does not spill.

    Of those the one of two groups in all, so that one has work while the other one waits, or of as
    few as there can be: each leaves a row of sums.
    """
    vector, length = rows.run.vector(problem), length_of(rows, problem)
    best: tuple[tuple[float, ...], InnerOuterParams] | None = None
    for block_x, unroll in _shapes(length // vector, vector):
        for form in _forms(rows, residents, vector * unroll, vector):
            for groups in range(1, MOST_GROUPS + 1):
                for blocks in range(1, MOST_BLOCKS_PER_SM + 1):
                    stages = _stages(rows, length, groups, blocks, form)
                    room = registers_left(groups * block_x, blocks)
                    if stages < 2 or form.registers > room:
                        continue
                    warps = min(ENOUGH_WARPS, groups * blocks * block_x // 32)
                    held = min(RING_BYTES, stages * blocks * length * rows.loaded)
                    merit = (
                        min(1.0, held / RING_BYTES) * warps,
                        -form.order,
                        min(2, groups * blocks),
                        -groups * blocks,
                        blocks,
                        block_x,
                    )
                    if best is not None and merit <= best[0]:
                        continue
                    params = InnerOuterParams(
                        vector=vector,
                        unroll=unroll,
                        block_x=block_x,
                        block_y=groups,
                        blocks_per_sm=blocks,
                        whole=True,
                        late=False,
                        again=form.again,
                        vectorized=rows.run.vectorized(problem, vector),
                        ring=stages,
                        warp_specialize=True,
                        reread=form.reread,
                        weights_in_shared=form.weights_in_shared,
                    )
                    best = merit, params
    return None if best is None else best[1]


def registers_left(compute: int, blocks: int) -> int:
    """Registers of each of a block's `compute` threads, beside the role that loads.

    They get its own where all are whole warp groups (`setmaxnreg`); 0 where a block has too many
    threads.
    """
    threads = LOAD_THREADS + compute
    if threads > MOST_BLOCK_THREADS:
        return 0
    each = min(255, REGISTERS_PER_SM // (blocks * threads) // 8 * 8)
    if compute % LOAD_THREADS:
        return each
    return min(240, (each * threads - LOAD_REGISTERS * LOAD_THREADS) // compute // 8 * 8)


@dataclass(frozen=True, slots=True)
class _Form:
    """What stays in registers, by the number of ways that are to be tried before it.

    `kept` are the bytes of shared memory, for each element of a row, of what all rows share.
    """

    order: int
    reread: bool
    weights_in_shared: bool
    again: bool
    registers: int
    kept: int


def _forms(
    rows: Rows, residents: tuple[Choice, ...], elements: int, vector: int
) -> Iterator[_Form]:
    """The ways, for threads of so many elements of a row: those of fewest accesses first."""
    first = next(choice for choice in residents if not choice.late)
    weights = max((choice.passing for choice in residents), default=0)
    stay = first.bytes_per_element(max(1, 4 // vector))
    for order, (reread, shared) in enumerate(((False, False), (True, False), (True, True))):
        if shared and not weights:
            return
        held = stay - (rows.loaded if reread else 0) - (weights if shared else 0)
        needed = -(-elements * (max(0, held) + rows.summed) // 4) + 2 * vector + FIXED_REGISTERS
        yield _Form(order, reread, shared, first.again, needed, weights if shared else 0)


def _stages(rows: Rows, length: int, groups: int, blocks: int, form: _Form) -> int:
    """Slots of a block: a multiple of the groups, enough to have memory busy, as many as fit."""
    slot = length * rows.loaded
    room = SHARED_PER_SM // blocks - SHARED_FIXED - length * form.kept
    wanted = 1 + -(-RING_BYTES // (blocks * slot))
    return min(-(-max(2, wanted) // groups), room // slot // groups) * groups


def _shapes(vectors: int, vector: int) -> Iterator[tuple[int, int]]:
    """(threads of a group, accesses of each) that are exactly a row, in whole warps."""
    for unroll in range(1, MOST_ELEMENTS // vector + 1):
        threads = vectors // unroll
        if vectors % unroll == 0 and threads % 32 == 0 and threads <= MOST_BLOCK_THREADS:
            yield threads, unroll
