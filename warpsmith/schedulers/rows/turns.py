"""Choice of threads a row, rows of a turn and blocks where rows go in waves beside column sums."""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import Enum, auto
from itertools import product

from warpsmith.schedulers.cover import full_passes
from warpsmith.schedulers.layout import stage_bytes, unfit_for_copies
from warpsmith.schedulers.multiprocessor import CLUSTERS, SHARED_FIXED
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows.across import vector_in_turns, vectorized_across
from warpsmith.schedulers.rows.by_threads import spread
from warpsmith.schedulers.rows.model import MOST_FEW
from warpsmith.schedulers.rows.needs import (
    MOST_ELEMENTS,
    PREDICATE_REGISTERS,
    Needs,
    registers_of,
    shapes,
    shared_sums,
)
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.rows.role import (
    CROSSWISE,
    IN_PIECES,
    LEAST_BYTES,
    TORN,
    unfit,
)
from warpsmith.schedulers.rows.rows import Rows
from warpsmith.targets.family import WARP, Limits
from warpsmith.targets.target import Target

SIDE_THREADS = 512
"""The same where rows are loaded ahead: a thread then has enough of a row to be busy alone."""

MOST_BLOCKS_PER_SM = 3
"""Each block leaves a row of partial sums, which is written and read again."""

MOST_KEPT, MOST_KEPT_ELEMENTS = 2, 32
"""Rows of a thread in one turn: one reduction across the block serves both; and elements of each
where they have several sums and are one block's: with 40 all registers are taken, and 8 LayerNorms
of 8192 rows took 1.01 to 1.07 times as long as with one row and a stage more (H200, 2026-11-27)."""

SPREAD = ((65536, 2), (131072, 8))
"""Bytes of a row from which on it may have so many blocks though fewer could keep it: stages are
smaller then, and fewer sums are left."""

LEAST_WHOLE_BYTES = 528
"""Of many rows that the TMA unit brings as they are, if they are loaded ahead: lanes of a warp have
two accesses of each then. Of 18 such norms backward below 1 KB rings took 0.79 to 1.00 of the time
of threads that load rows themselves, of 12 with one access 1.13 to 1.28 (H200, 2026-11-27)."""

AHEAD_US = 1.1
"""Of its share of the memory's rate, what a multiprocessor asks for ahead of the rows at work, at
least: with fewer bytes the memory waits, with many the first rows do. At 17 drawn sizes a stage
more where there was less took 0.991 of the time (H200, docs/lessons/norms_backward.md)."""

_SIDES = tuple(1 << power for power in range(9))

COPY_BYTES = (8, 16)
"""Bytes that a thread is to copy to shared memory without waiting (`cp.async`): copies of 4 are
slower than loads into registers."""

SPARE, SKIPPED_SPARE = 0.25, 0.5
"""Share of a row that threads may have too much of: where all passes have predicates, and where
warps skip what they have not of the last one."""

STEPS = (WARP, 2 * WARP, 4 * WARP)
"""Multiples to which the threads of a row are rounded: those of a block are to be as many warps for
each of a multiprocessor's four schedulers."""


class Way(Enum):
    """How rows come to a ring: by the TMA unit, exactly or in whole chunks, of which threads read
    vectors across the begins and ends of rows or what divides these, or by threads.
    """

    WHOLE = auto()
    ACROSS = auto()
    CHUNKS = auto()
    BY_THREADS = auto()


def no_ring(rows: Rows, params: RowParams, problem: Problem) -> str:
    """Why rows are not loaded ahead through shared memory; empty where they are."""
    if params.ring:
        return ""
    reason = _no_tiles(rows, problem, params.cluster)
    return reason or "two stages do not fit in shared memory, or threads have no registers for rows"


def _no_tiles(rows: Rows, problem: Problem, cluster: int) -> str:
    """Why the TMA unit is not to bring rows; empty where it is."""
    if problem.rings == "never":
        return "the knob `rings` says never"
    if rows.in_pieces:
        return IN_PIECES
    if rows.torn:
        return f"{rows.torn} {TORN}"
    if rows.crosswise:
        return f"{rows.crosswise} {CROSSWISE}"
    least, length, part = (
        _least_whole_bytes(rows, problem),
        rows.length(problem),
        part_of(rows, problem, cluster),
    )
    last = min(part, length - (cluster - 1) * part)
    return unfit_for_copies(rows.loads, length, problem, least) or unfit_for_copies(
        rows.loads, last, problem, least
    )


def part_of(rows: Rows, problem: Problem, blocks: int) -> int:
    """Elements of a row that each of so many blocks has, the last one perhaps less, so that all
    parts begin at multiples of 16 bytes and of a vector.
    """
    narrowest = min(rows.sizes, default=16)
    grain = max(rows.run.vector(problem), 16 // narrowest) if blocks > 1 else 1
    return -(-rows.length(problem) // (blocks * grain)) * grain


def _least_bytes(problem: Problem) -> int:
    """Of a row that is loaded ahead."""
    return 16 if problem.rings == "prefer" else LEAST_BYTES


def _least_whole_bytes(rows: Rows, problem: Problem) -> int:
    """The same of rows that come as they are; few short ones were not timed."""
    many = rows.count(problem) > MOST_FEW * problem.target.sm_count
    return min(_least_bytes(problem), LEAST_WHOLE_BYTES) if many else _least_bytes(problem)


def _vector_of_copies(rows: Rows, problem: Problem) -> int:
    """Adjacent elements that a thread copies to shared memory at a time; 0 where it is not to."""
    sizes = rows.sizes
    short = rows.length(problem) * min(sizes, default=0) < _least_bytes(problem)
    if problem.rings == "never" or rows.in_pieces or short:
        return 0
    vector = rows.run.vector(problem)
    while vector > 1:
        vectorized = rows.run.vectorized(problem, vector)
        if all(cached.name in vectorized for cached in rows.loads):
            break
        vector //= 2
    return vector if all(vector * size in COPY_BYTES for size in sizes) else 0


def _vector_of(rows: Rows, problem: Problem, way: Way) -> int:
    """Adjacent elements of an access to rows that come so; 0 where they cannot."""
    if way is Way.ACROSS:
        return vector_in_turns(rows, problem)
    return _vector_of_copies(rows, problem) if way is Way.BY_THREADS else rows.run.vector(problem)


def _stages(stage: int, blocks: int, sums: int, target: Target) -> int:
    """Stages of so many bytes that a block's ring has: as many as keep the memory busy while it
    works on one of them, or as there is room for; 0 if not even two.
    """
    room = (target.family.limits.block_shared // blocks - SHARED_FIXED - sums) // stage
    ahead = math.ceil(AHEAD_US * target.sm_memory / (blocks * stage))
    return min(1 + ahead, room) if room > 1 else 0


def candidates(rows: Rows, problem: Problem) -> list[RowParams]:
    """A row in as few blocks as can keep it, loaded ahead if it can be; a long row in more blocks,
    too, or where it can be in these alone. None where no blocks can keep it, or there is nothing to
    keep.

    Everything follows from the row's length, and from whether there are few rows; else a new row
    count changes the blocks alone.
    """
    clusters = problem.target.runs(CLUSTERS)
    row_bytes = rows.length(problem) * rows.loaded
    widest = max((blocks for least, blocks in SPREAD if row_bytes >= least), default=1)
    kept: RowParams | None = None
    for cluster in clusters:
        found = loaded_ahead(rows, problem, cluster)
        if found:
            for wider in (blocks for blocks in clusters if cluster < blocks <= widest):
                found += loaded_ahead(rows, problem, wider)
            return found
        kept = kept or spread(rows, problem, cluster)
        if kept is not None and 2 * cluster > widest:
            break
    return [] if kept is None else [kept]


def loaded_ahead(rows: Rows, problem: Problem, cluster: int) -> list[RowParams]:
    """The ways in which so many blocks have a row that is loaded ahead; none where they cannot, or
    where rows are not to be. Where threads have not exactly a row, some have less of it.

    Threads copy rows only where chunks cannot be, which take 0.92 of the time (lessons of lengths).
    """
    found: list[RowParams] = []
    for way in _ways(rows, problem, cluster):
        if way is not Way.BY_THREADS or not any(params.chunks for params in found):
            found += _in_ring(rows, problem, cluster, way)
    return found


def _ways(rows: Rows, problem: Problem, cluster: int) -> tuple[Way, ...]:
    """By the TMA unit, where it can bring rows as they are; else those that are left."""
    if not _no_tiles(rows, problem, cluster):
        return (Way.WHOLE,)
    if problem.rings == "never":
        return ()
    if unfit(rows, problem, _least_bytes(problem)):
        return (Way.BY_THREADS,)
    across = (Way.ACROSS,) if vector_in_turns(rows, problem) else ()
    return (*across, Way.CHUNKS, Way.BY_THREADS)


def _covering(length: int, vector: int, spare: float, limits: Limits) -> Iterator[tuple[int, int]]:
    """(threads of a row, accesses of each) that cover it and at most that share more, each access
    with some of it: as few threads as do, and as many as make whole warps for each scheduler.
    """
    vectors = -(-length // vector)
    for fewest, unroll in shapes(vectors, limits):
        rounded = {fewest} if fewest < WARP else {-(-fewest // step) * step for step in STEPS}
        for block_x in sorted(rounded):
            covered = block_x * unroll * vector
            room = 1 + (spare if unroll > 1 else min(spare, SPARE))
            fits = covered <= length * room and block_x <= limits.block_threads
            if fits and unroll * vector <= MOST_ELEMENTS and (unroll - 1) * block_x < vectors:
                yield block_x, unroll


def _in_ring(rows: Rows, problem: Problem, cluster: int, way: Way) -> list[RowParams]:
    """The shapes that load rows ahead so, and whose registers and stages fit. Threads that
    copy rows themselves have one at a time: with two, LayerNorm took 40 % longer. Rows in chunks
    begin anywhere in their stage, which has one.
    """
    by_threads, limits = way is Way.BY_THREADS, problem.target.family.limits
    across, chunks = way is Way.ACROSS, way in (Way.ACROSS, Way.CHUNKS)
    vector = _vector_of(rows, problem, way)
    if not vector:
        return []
    whole, length = rows.length(problem), part_of(rows, problem, cluster)
    if across:
        length = -(-(whole + vector - 1) // (cluster * vector)) * vector
    uneven = whole if across or length * cluster != whole else 0
    if length % vector or (uneven and by_threads):
        return []
    spare_share = SKIPPED_SPARE if way in (Way.WHOLE, Way.ACROSS) else SPARE
    shapes = list(_covering(length, vector, spare_share, limits))
    vectorized = rows.run.vectorized(problem, vector)
    if across:
        vectorized = vectorized_across(rows, problem)
    most_kept = MOST_KEPT if way in (Way.WHOLE, Way.ACROSS) else 1
    stage = stage_bytes(rows.loads, length, whole, chunks=chunks)
    for choice in rows.residents:
        found: list[RowParams] = []
        one = choice.bytes_per_element(vector)
        sides = (1,) if way is Way.CHUNKS else _SIDES
        for (block_x, unroll), side, kept in product(shapes, sides, range(1, most_kept + 1)):
            covered = block_x * unroll * vector
            threads = block_x * side
            if threads > (SIDE_THREADS if side > 1 else limits.block_threads) or threads % 128:
                continue
            if min(side, kept, cluster) > 1 and len(rows.sums) > 1:
                continue  # ptxas keeps both rows through the exchange of several sums, and spills
            crowded = kept > 1 and cluster == 1 and unroll * vector > MOST_KEPT_ELEMENTS
            if crowded and len(rows.sums) > 1:
                continue
            size = one + (kept - 1) * rows.loaded
            row = Needs(vector, unroll, size + rows.summed, choice.passing, limits)
            tight = max(side, kept) > 1 and len(rows.sums) > 1
            exact = covered == length and not uneven
            needed = row.registers + (PREDICATE_REGISTERS if tight and not exact else 0)
            for blocks in range(1, MOST_BLOCKS_PER_SM + 1):
                if needed > registers_of(blocks * threads, limits, tight=tight):
                    break
                sums = shared_sums(rows, covered, side)
                held = (rows.loaded * covered if by_threads else stage) * side * kept
                stages = _stages(held, blocks, sums, problem.target)
                if stages:
                    params = RowParams(
                        vector=vector,
                        unroll=unroll,
                        block_x=block_x,
                        block_y=side,
                        blocks_per_sm=blocks,
                        exact=exact,
                        reload_weights=choice.reload_weights,
                        again=choice.again,
                        vectorized=vectorized,
                        ring=stages,
                        rows_per_thread=kept,
                        cluster=cluster,
                        full=full_passes(length // vector, block_x, unroll) if by_threads else 0,
                        row=0 if by_threads or exact else length,
                        uneven=uneven,
                        by_threads=by_threads,
                        chunks=chunks,
                        across=across,
                    )
                    found.append(params)
        if found:  # what comes later loads or computes again
            return found
    return []
