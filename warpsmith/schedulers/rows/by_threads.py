"""Choice of threads a row and blocks where threads load rows themselves, beside column sums."""

from __future__ import annotations

from warpsmith.schedulers.cover import full_passes
from warpsmith.schedulers.multiprocessor import ENOUGH_BYTES, ENOUGH_WARPS, SHARED_FIXED
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows.needs import Needs, registers_of, shapes, shared_sums
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.rows.resident import Choice
from warpsmith.schedulers.rows.role import LEAST_BYTES
from warpsmith.schedulers.rows.rows import Rows

BLOCK_THREADS = 384
"""Threads of a block that has several rows, at most."""

SHORT_ELEMENTS = 16
SHORT_BLOCKS = ((512, 2), (256, 3), (256, 2))
"""Elements of a short row in a lane, at most, and the threads of a block and blocks of a
multiprocessor that it takes, if they have the registers: twelve programs of 64 to 196 elements take
5 % longer than in the fastest shape that was timed, at most, but for one of 10 %; before, 66 %
(docs/lessons/row_lengths.md)."""

SHORT_REGISTERS = 8
"""Fewer of them than are counted: what is counted once for each thread is for longer rows."""

LINE_BYTES = 128
"""That the lanes of a short row are to ask for at once."""


def spread(rows: Rows, problem: Problem, cluster: int) -> RowParams | None:
    """Where threads load rows: the first way to keep a row in so many blocks that has enough in
    flight, else the one that has most.
    """
    short = _short(rows, rows.residents[0], problem) if cluster == 1 else None
    if short is not None:
        return short
    vector, whole = rows.run.vector(problem), rows.length(problem)
    length = -(-whole // (cluster * vector)) * vector
    limits = problem.target.family.limits
    best: tuple[tuple[float, ...], RowParams] | None = None
    for number, choice in enumerate(rows.residents):
        for block_x, unroll in shapes(-(-length // vector), limits):
            kept = choice.bytes_per_element(vector)
            row = Needs(vector, unroll, kept + rows.summed, choice.passing, limits)
            block_y = 1 << max(0, (BLOCK_THREADS // block_x).bit_length() - 1)
            blocks_per_sm = row.blocks_per_sm(block_x * block_y)
            covered = block_x * unroll * vector
            room = limits.block_shared - blocks_per_sm * SHARED_FIXED
            sums = blocks_per_sm * shared_sums(rows, covered, block_y)
            if not row.fits or not blocks_per_sm or sums > room:
                continue
            warps = blocks_per_sm * block_x * block_y // 32
            resident = blocks_per_sm * block_y * length * rows.loaded
            busy = min(1.0, resident / ENOUGH_BYTES) * min(1.0, warps / ENOUGH_WARPS)
            merit = (
                busy if cluster * covered == whole else busy / 2,  # rings are for whole rows only
                -number,
                -covered,
                min(2, blocks_per_sm),
                -block_x,
            )
            if best is None or merit > best[0]:
                params = RowParams(
                    vector=vector,
                    unroll=unroll,
                    block_x=block_x,
                    block_y=block_y,
                    blocks_per_sm=blocks_per_sm,
                    exact=cluster * covered == whole,
                    full=0
                    if rows.in_pieces
                    else full_passes(-(-whole // vector), block_x, unroll, cluster),
                    reload_weights=choice.reload_weights,
                    again=choice.again,
                    vectorized=rows.run.vectorized(problem, vector),
                    cluster=cluster,
                )
                best = merit, params
    return None if best is None else best[1]


def _short(rows: Rows, choice: Choice, problem: Problem) -> RowParams | None:
    """A row that is too short to be loaded ahead, in as many lanes of a warp as it can have: each
    then waits for few loads, and many warps wait at once. None for longer rows, and where accesses
    have one element. Sums that fit in the registers fit in shared memory, too.
    """
    vector, length = rows.run.vector(problem), rows.length(problem)
    vectors = -(-length // vector)
    unroll = -(-vectors // 32)
    lanes = 1 << (-(-vectors // unroll) - 1).bit_length()
    widest = max(rows.sizes, default=4)
    long = length * widest >= LEAST_BYTES or unroll * vector > SHORT_ELEMENTS
    if long or vector == 1 or lanes * vector * widest < LINE_BYTES:
        return None
    limits = problem.target.family.limits
    kept = choice.bytes_per_element(vector)
    row = Needs(vector, unroll, kept + rows.summed, choice.passing, limits)
    for threads, blocks in SHORT_BLOCKS:
        if row.registers - SHORT_REGISTERS <= registers_of(blocks * threads, limits):
            return RowParams(
                vector=vector,
                unroll=unroll,
                block_x=lanes,
                block_y=threads // lanes,
                blocks_per_sm=blocks,
                exact=lanes * unroll * vector == length,
                reload_weights=choice.reload_weights,
                again=choice.again,
                vectorized=rows.run.vectorized(problem, vector),
            )
    return None
