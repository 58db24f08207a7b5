"""Choice of threads a row, rows of a turn and blocks where rows go in waves beside column sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import product

from warpsmith.schedulers.inner_outer.predict import predictor, shape_of, timed_shapes
from warpsmith.schedulers.inner_outer.rows import (
    InnerOuterParams,
    Rows,
    length_of,
    unfit_for_slots,
    unfit_for_tiles,
)
from warpsmith.schedulers.layout import spare_bytes
from warpsmith.schedulers.multiprocessor import (
    CLUSTERS,
    MOST_BLOCK_THREADS,
    REGISTERS_PER_SM,
    SHARED_FIXED,
    SHARED_PER_SM,
    blocks_of_registers,
)
from warpsmith.schedulers.normalization.resident import Choice
from warpsmith.schedulers.problem import Problem

MOST_REGISTERS = 280
"""Registers that a thread may need by this count: with that many, kernels still fit in 255."""

MOST_LOADING_REGISTERS = 272
"""The same where threads load rows themselves; where a thread has fewer than 255, as much in
proportion."""

FIXED_REGISTERS = 30
"""Registers for addresses, predicates, results of reductions and the loop over rows."""

BLOCK_THREADS = 384
"""Threads of a block that has several short rows, at most, where they load rows themselves."""

SIDE_THREADS = 512
"""The same where rows are loaded ahead: a thread then has enough of a row to be busy alone."""

SHORT_ELEMENTS = 16
SHORT_BLOCKS = ((512, 2), (256, 3), (256, 2))
"""Elements of a short row in a lane, at most, and the threads of a block and blocks of a
multiprocessor that it takes, if they have the registers: rows of 64 to 512 elements then took 5 %
longer than the fastest that was timed, at most, and before up to 65 %
(docs/lessons/data/norm-short-rows.json)."""

SHORT_REGISTERS = 8
"""Fewer of them than are counted: what is counted once for each thread is for longer rows."""

MOST_BLOCKS_PER_SM = 3
"""Each block leaves a row of partial sums, which is written and read again."""

MOST_BLOCKS_OF_THREADS = 2
"""The same where threads load rows themselves."""

MOST_KEPT = 2
"""Rows of a thread in one turn: one reduction across the block serves both."""

ENOUGH_BYTES = 49152
"""Bytes of rows that a multiprocessor is to hold at once, some of which are being loaded."""

ENOUGH_WARPS = 16
"""Warps of a multiprocessor from which on more of them hide no more."""

RINGS_BYTES = (65536, 98304, 131072)
"""Bytes of rows that a multiprocessor's rings are to hold: the less where there are few rows, the
more where there are many, mostly."""

SPREAD = ((65536, 2), (131072, 8))
"""Bytes of a row from which on it may have so many blocks though fewer could keep it: slots are
smaller then, and fewer sums are left. Shapes that were timed at a row's length may have more."""

_SIDES = tuple(1 << power for power in range(9))

RING_ROW_BYTES = 1024
"""Rows of fewer bytes are not loaded ahead: one thread asks for each of them apart."""

COPY_BYTES = (8, 16)
"""Bytes that a thread is to copy to shared memory without waiting (`cp.async`): copies of 4 are
slower than loads into registers."""

LINE_BYTES = 128
"""That the lanes of a short row are to ask for at once."""

SPARE = 0.25
"""Share of a row that threads may have too much of, where none have exactly a row."""

MOST_ELEMENTS = 64
"""Elements of a row in one thread: all loops over them are unrolled."""


class Way(Enum):
    """How rows come to a ring: by the TMA unit, exactly or in whole chunks, or by threads."""

    WHOLE = auto()
    CHUNKS = auto()
    BY_THREADS = auto()


def misfit(rows: Rows, residents: tuple[Choice, ...], problem: Problem) -> str:
    """Why the rows of a call cannot stay in registers; empty where they can."""
    length = length_of(rows, problem)
    if length == 0:
        return "its rows are empty"
    if _best(rows, residents, problem) is None:
        most = problem.target.runs(CLUSTERS)[-1]
        return (
            f"rows of {length} elements and the sums of their columns do not fit in the registers "
            f"of {most} blocks"
        )
    return ""


def choose(rows: Rows, residents: tuple[Choice, ...], problem: Problem) -> InnerOuterParams:
    """Everything follows from the row's length, and from whether there are few rows; else a new row
    count changes the blocks alone.
    """
    found = _best(rows, residents, problem)
    assert found is not None, "misfit was not asked"
    return found


def no_ring(rows: Rows, params: InnerOuterParams, problem: Problem) -> str:
    """Why rows are not loaded ahead through shared memory; empty where they are."""
    if params.ring:
        return ""
    reason = _no_tiles(rows, problem, params.cluster)
    return reason or "two slots do not fit in shared memory, or threads have no registers for rows"


def _no_tiles(rows: Rows, problem: Problem, cluster: int) -> str:
    """Why the TMA unit is not to bring rows; empty where it is."""
    if problem.rings == "never":
        return "the knob `rings` says never"
    return unfit_for_tiles(rows, problem, _least_bytes(problem), cluster)


def _least_bytes(problem: Problem) -> int:
    """Of a row that is loaded ahead."""
    return 16 if problem.rings == "prefer" else RING_ROW_BYTES


def _vector_of_copies(rows: Rows, problem: Problem) -> int:
    """Adjacent elements that a thread copies to shared memory at a time; 0 where it is not to."""
    sizes = [cached.memory.dtype.size for cached in rows.loads]
    short = length_of(rows, problem) * min(sizes, default=0) < _least_bytes(problem)
    if problem.rings == "never" or rows.run.start or short:
        return 0
    vector = rows.run.vector(problem)
    while vector > 1:
        vectorized = rows.run.vectorized(problem, vector)
        if all(cached.name in vectorized for cached in rows.loads):
            break
        vector //= 2
    return vector if all(vector * size in COPY_BYTES for size in sizes) else 0


def _slots(slot: int, blocks: int, sums: int) -> tuple[int, ...]:
    """Slots of so many bytes that a block's ring may have; none if not even two."""
    room = (SHARED_PER_SM // blocks - SHARED_FIXED - sums) // slot
    wanted = {max(2, round(size / (blocks * slot))) for size in RINGS_BYTES}
    return tuple(sorted({min(slots, room) for slots in wanted})) if room >= 2 else ()


def _shared_sums(rows: Rows, elements: int, block_y: int) -> int:
    """Bytes of shared memory in which a block adds what its rows of threads summed."""
    return rows.summed * elements * block_y if block_y > 1 else 0


def _best(rows: Rows, residents: tuple[Choice, ...], problem: Problem) -> InnerOuterParams | None:
    """A row in as few blocks as can keep it, loaded ahead if it can be; a long row in more blocks
    where that is predicted to take less time, and straight to registers where that was timed.
    """
    clusters = problem.target.runs(CLUSTERS)
    row_bytes = length_of(rows, problem) * rows.loaded
    widest = max((blocks for least, blocks in SPREAD if row_bytes >= least), default=1)
    for cluster in clusters:
        found = loaded_ahead(rows, residents, problem, cluster)
        if found:
            timed = timed_shapes(rows, problem)
            if any(shape.slots == 0 for shape in timed):
                alone = _spread(rows, residents, problem, cluster)
                found += [alone] if alone is not None and shape_of(alone) in timed else []
            for wider in (blocks for blocks in clusters if blocks > cluster):
                if wider <= widest:
                    found += loaded_ahead(rows, residents, problem, wider)
                elif any(shape.cluster == wider for shape in timed):
                    more = loaded_ahead(rows, residents, problem, wider)
                    found += (params for params in more if shape_of(params) in timed)
            return min(found, key=predictor(rows, problem))
        kept = _spread(rows, residents, problem, cluster)
        if kept is not None:
            return kept
    return None


def loaded_ahead(
    rows: Rows, residents: tuple[Choice, ...], problem: Problem, cluster: int
) -> list[InnerOuterParams]:
    """The ways in which so many blocks have a row that is loaded ahead; none where they cannot, or
    where rows are not to be. Where threads have not exactly a row, some have less of it.
    """
    return [
        params
        for way in _ways(rows, problem, cluster)
        for params in _in_ring(rows, residents, problem, cluster, way)
    ]


def _ways(rows: Rows, problem: Problem, cluster: int) -> tuple[Way, ...]:
    """By the TMA unit, where it can bring rows as they are; else those that are left."""
    if not _no_tiles(rows, problem, cluster):
        return (Way.WHOLE,)
    if problem.rings == "never":
        return ()
    chunks = cluster == 1 and not unfit_for_slots(rows, problem, _least_bytes(problem))
    return (Way.CHUNKS, Way.BY_THREADS) if chunks else (Way.BY_THREADS,)


def _covering(length: int, vector: int, spare: float) -> Iterator[tuple[int, int]]:
    """(threads of a row, accesses of each) that cover it and at most that share more."""
    for block_x, unroll in _shapes(-(-length // vector)):
        elements = unroll * vector
        if block_x * elements <= length * (1 + spare) and elements <= MOST_ELEMENTS:
            yield block_x, unroll


def _in_ring(
    rows: Rows, residents: tuple[Choice, ...], problem: Problem, cluster: int, way: Way
) -> list[InnerOuterParams]:
    """The shapes that load rows ahead so, and whose registers and slots fit. Threads that
    copy rows themselves have one at a time: with two, LayerNorm took 40 % longer. Rows in chunks
    begin anywhere in their slot, which has one.
    """
    length, rest = divmod(length_of(rows, problem), cluster)
    by_threads = way is Way.BY_THREADS
    vector = _vector_of_copies(rows, problem) if by_threads else rows.run.vector(problem)
    if rest or not vector or length % vector:
        return []
    exact = list(_covering(length, vector, 0)) if way is Way.WHOLE else []
    shapes = exact or list(_covering(length, vector, SPARE))
    vectorized = rows.run.vectorized(problem, vector)
    most_kept = MOST_KEPT if way is Way.WHOLE else 1
    spare = spare_bytes(rows.loads, length, problem) if way is Way.CHUNKS else 0
    for choice in residents:
        found: list[InnerOuterParams] = []
        sides = (1,) if way is Way.CHUNKS else _SIDES
        for (block_x, unroll), side, kept in product(shapes, sides, range(1, most_kept + 1)):
            covered = block_x * unroll * vector
            threads = block_x * side
            if threads > (SIDE_THREADS if side > 1 else MOST_BLOCK_THREADS) or threads % 128:
                continue
            size = choice.bytes_per_element(max(1, 4 // vector)) + (kept - 1) * rows.loaded
            row = _Row(vector, unroll, size + rows.summed, choice.passing)
            for blocks in range(1, MOST_BLOCKS_PER_SM + 1):
                if row.registers > registers_of(blocks * threads):
                    break
                sums = _shared_sums(rows, covered, side)
                slot = rows.loaded * (covered if by_threads else length) + spare
                found += (
                    InnerOuterParams(
                        vector=vector,
                        unroll=unroll,
                        block_x=block_x,
                        block_y=side,
                        blocks_per_sm=blocks,
                        whole=covered == length,
                        late=choice.late,
                        again=choice.again,
                        vectorized=vectorized,
                        ring=slots,
                        kept_unroll=kept,
                        cluster=cluster,
                        row=0 if by_threads or covered == length else length,
                        by_threads=by_threads,
                        chunks=way is Way.CHUNKS,
                    )
                    for slots in _slots(slot * side * kept, blocks, sums)
                )
        if found:  # what comes later loads or computes again
            return found
    return []


def registers_of(threads: int) -> int:
    """Registers that a thread may need by this module's count where a multiprocessor holds so many
    threads: it hands them out 8 a thread.
    """
    each = REGISTERS_PER_SM // threads // 8 * 8
    return MOST_REGISTERS if each > 255 else each * MOST_LOADING_REGISTERS // 255


def _spread(
    rows: Rows, residents: tuple[Choice, ...], problem: Problem, cluster: int
) -> InnerOuterParams | None:
    """Where threads load rows: the first way to keep a row in so many blocks that has enough in
    flight, else the one that has most.
    """
    short = _short(rows, residents[0], problem) if cluster == 1 else None
    if short is not None:
        return short
    vector, whole = rows.run.vector(problem), length_of(rows, problem)
    length = -(-whole // (cluster * vector)) * vector
    best: tuple[tuple[float, ...], InnerOuterParams] | None = None
    for number, choice in enumerate(residents):
        for block_x, unroll in _shapes(-(-length // vector)):
            kept = choice.bytes_per_element(max(1, 4 // vector))
            row = _Row(vector, unroll, kept + rows.summed, choice.passing)
            block_y = 1 << max(0, (BLOCK_THREADS // block_x).bit_length() - 1)
            blocks_per_sm = row.blocks_per_sm(block_x * block_y)
            covered = block_x * unroll * vector
            room = SHARED_PER_SM - blocks_per_sm * SHARED_FIXED
            sums = blocks_per_sm * _shared_sums(rows, covered, block_y)
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
                params = InnerOuterParams(
                    vector=vector,
                    unroll=unroll,
                    block_x=block_x,
                    block_y=block_y,
                    blocks_per_sm=blocks_per_sm,
                    whole=cluster * covered == whole,
                    late=choice.late,
                    again=choice.again,
                    vectorized=rows.run.vectorized(problem, vector),
                    cluster=cluster,
                )
                best = merit, params
    return None if best is None else best[1]


def _short(rows: Rows, choice: Choice, problem: Problem) -> InnerOuterParams | None:
    """A row that is too short to be loaded ahead, in as many lanes of a warp as it can have: each
    then waits for few loads, and many warps wait at once. None for longer rows, and where accesses
    have one element.
    """
    vector, length = rows.run.vector(problem), length_of(rows, problem)
    vectors = -(-length // vector)
    unroll = -(-vectors // 32)
    lanes = 1 << (-(-vectors // unroll) - 1).bit_length()
    widest = max((cached.memory.dtype.size for cached in rows.loads), default=4)
    long = length * widest >= RING_ROW_BYTES or unroll * vector > SHORT_ELEMENTS
    if long or vector == 1 or lanes * vector * widest < LINE_BYTES:
        return None
    row = _Row(
        vector, unroll, choice.bytes_per_element(max(1, 4 // vector)) + rows.summed, choice.passing
    )
    for threads, blocks in SHORT_BLOCKS:
        if row.registers - SHORT_REGISTERS <= registers_of(blocks * threads):
            return InnerOuterParams(
                vector=vector,
                unroll=unroll,
                block_x=lanes,
                block_y=threads // lanes,
                blocks_per_sm=blocks,
                whole=lanes * unroll * vector == length,
                late=choice.late,
                again=choice.again,
                vectorized=rows.run.vectorized(problem, vector),
            )
    return None


def _shapes(vectors: int) -> Iterator[tuple[int, int]]:
    """(threads of a row, accesses of each): lanes of a warp, or whole warps."""
    for unroll in range(1, MOST_ELEMENTS + 1):
        lanes = -(-vectors // unroll)
        threads = 32 * -(-lanes // 32) if lanes > 16 else 1 << max(0, lanes - 1).bit_length()
        if threads <= MOST_BLOCK_THREADS:
            yield threads, unroll
        if threads == 1:
            return


@dataclass(frozen=True, slots=True)
class _Row:
    """What a thread keeps: `size` bytes an element, and for one vector `passing` bytes more."""

    vector: int
    unroll: int
    size: int
    passing: int

    @property
    def registers(self) -> int:
        """Of a thread: what stays, a vector of floats being computed, and the rest."""
        stay = -(-self.unroll * self.vector * self.size // 4)
        work = 2 * self.vector + -(-self.vector * self.passing // 4)
        return stay + work + FIXED_REGISTERS

    @property
    def fits(self) -> bool:
        """Whether a thread that loads the row itself can keep it."""
        few = self.unroll * self.vector <= MOST_ELEMENTS
        return few and self.registers <= MOST_LOADING_REGISTERS

    def blocks_per_sm(self, threads: int) -> int:
        """Blocks that a multiprocessor has registers for."""
        return min(blocks_of_registers(min(256, self.registers), threads), MOST_BLOCKS_OF_THREADS)
