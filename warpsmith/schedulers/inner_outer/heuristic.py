"""Choice of threads a row, vectors a thread, rows a block and blocks beside sums of columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from warpsmith.ir.domains import IterDomain
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap, Group
from warpsmith.ir.tensor import TensorView
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.inner_outer.columns import partial_sums
from warpsmith.schedulers.layout import InnerRun, find_inner_run, unfit_for_copies
from warpsmith.schedulers.normalization.resident import Choice
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.can import reductions
from warpsmith.schedulers.reduction.heuristic import memory_ordered

REGISTERS_PER_SM = 65536
MOST_REGISTERS = 272
"""Registers that a thread may need by this count: with that many, kernels still fit in 255."""

FIXED_REGISTERS = 30
"""Registers for addresses, predicates, results of reductions and the loop over rows."""

MOST_BLOCK_THREADS = 1024
BLOCK_THREADS = 384
"""Threads of a block that has several short rows, at most."""

MOST_BLOCKS_PER_SM = 2
"""Each block leaves a row of partial sums, which is written and read again."""

ENOUGH_BYTES = 49152
"""Bytes of rows that a multiprocessor is to hold at once, some of which are being loaded."""

ENOUGH_WARPS = 16
"""Warps of a multiprocessor from which on more of them hide no more."""

RING_BYTES = 98304
"""Bytes of rows that a multiprocessor's rings are to hold beside those in work."""

RING_ROW_BYTES = 1024
"""Rows of fewer bytes are loaded by the threads: one thread asks for each of them apart."""

SHARED_PER_SM = 227 * 1024
SHARED_FIXED = 3072
"""Bytes of shared memory of a block besides rings and the sums across block_y."""

CLUSTERS = (1, 2, 4, 8, 16)
"""Blocks over which a row may be spread."""

CLUSTERED_SMS = 128
"""Multiprocessors of an H200 on which clusters of four blocks and more run: they come in groups of
16 and 18, and a cluster lies in one group."""

MOST_ELEMENTS = 64
"""Elements of a row in one thread: all loops over them are unrolled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerOuterParams:
    """A schedule whose rows stay in registers while blocks go round them and sum the columns.

    Attributes:
        vector: adjacent elements per thread and access.
        unroll: accesses of a row and input per thread, all issued before the first use.
        block_x: threads of a block that a row has.
        block_y: rows that a block has at a time.
        blocks_per_sm: blocks that a multiprocessor holds at once.
        whole: the threads' vectors are exactly the row's, so that none needs a predicate.
        late: inputs that all rows share are loaded for each row again, from the caches.
        again: costly values are computed again, where that takes fewer registers than to keep them.
        vectorized: names of the global tensors accessed in vectors.
        ring: slots through which rows are loaded ahead; 0 where threads load for themselves.
        warp_specialize: a role loads rows into the ring, and block_y are groups that take turns.
        kept_unroll: rows of a turn in a thread, which are reduced together.
        reread: rows are read from their slot again for each stage, not kept in registers.
        weights_in_shared: what all rows share stays in shared memory, not in registers.
        cluster: blocks that share a row; 1 where it is one block's.
        joined: the sums of groups that take turns are added before the block leaves them.
        row: elements of a row, of which all are copied at once, where threads have not exactly
            these; else 0.
    """

    vector: int
    unroll: int
    block_x: int
    block_y: int
    blocks_per_sm: int
    whole: bool
    late: bool
    again: bool
    vectorized: tuple[str, ...]
    ring: int = 0
    warp_specialize: bool = False
    kept_unroll: int = 1
    reread: bool = False
    weights_in_shared: bool = False
    cluster: int = 1
    joined: bool = False
    row: int = 0

    @property
    def apart(self) -> bool:
        """Whether each group of a block leaves sums of its own."""
        return self.warp_specialize and not self.joined


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What a fusion says of its rows.

    Attributes:
        axes: the dimensions in memory order, those of a row last.
        run: the fastest of them, which a vector may walk.
        full: the copies that have an element for each one of the rows.
        loaded: bytes of inputs of full size, for each element of a row.
        summed: bytes of running sums, for each column.
    """

    axes: tuple[IterDomain, ...]
    run: InnerRun
    full: tuple[Cached, ...]
    loaded: int
    summed: int


def row_sums(fusion: Fusion) -> tuple[TensorView, ...]:
    """The reductions of rows."""
    columns = set(map(id, partial_sums(fusion)))
    return tuple(t for t in reductions(fusion) if id(t) not in columns)


def rows_of(fusion: Fusion, domains: DomainMap, caches: tuple[Cached, ...]) -> Rows:
    """Of a fusion with caches whose sums of columns are cut."""
    axes = memory_ordered(domains, row_sums(fusion)[0], caches)
    start = len(axes)
    while start and axes[start - 1].is_reduction:
        start -= 1
    whole = _groups(domains, axes)
    full = tuple(c for c in caches if _groups(domains, c.copy.shape_axes) == whole)
    return Rows(
        axes=axes,
        run=find_inner_run(domains, axes[start:], caches),
        full=full,
        loaded=sum(cached.memory.dtype.size for cached in full if cached.load),
        summed=sum(tensor.dtype.size for tensor in partial_sums(fusion)),
    )


def _groups(domains: DomainMap, axes: Iterable[IterDomain]) -> set[Group]:
    return {domains.group(axis) for axis in axes if not axis.is_broadcast}


def unfit_for_tiles(rows: Rows, problem: Problem, least: int = 16, blocks: int = 1) -> str:
    """Why the TMA unit cannot bring rows, in copies of `least` bytes or more; empty where it can.

    `blocks` have a part of each row.
    """
    if rows.run.start:
        return "rows lie in several pieces"
    loads = [cached for cached in rows.full if cached.load]
    return unfit_for_copies(loads, length_of(rows, problem) // blocks, problem, least)


def misfit(rows: Rows, residents: tuple[Choice, ...], problem: Problem) -> str:
    """Why the rows of a call cannot stay in registers; empty where they can."""
    length = length_of(rows, problem)
    if length == 0:
        return "its rows are empty"
    if _best(rows, residents, problem) is None:
        return (
            f"rows of {length} elements and the sums of their columns do not fit in the registers "
            f"of {CLUSTERS[-1]} blocks"
        )
    return ""


def choose(rows: Rows, residents: tuple[Choice, ...], problem: Problem) -> InnerOuterParams:
    """Everything follows from the row's length; a new row count changes the blocks alone."""
    found = _best(rows, residents, problem)
    assert found is not None, "misfit was not asked"
    return (
        found
        if no_ring(rows, found, problem)
        else replace(found, ring=_slots(rows, found, problem))
    )


def no_ring(rows: Rows, params: InnerOuterParams, problem: Problem) -> str:
    """Why rows are not loaded ahead through shared memory; empty where they are."""
    if problem.rings == "never":
        return "the knob `rings` says never"
    if not params.whole:
        return "rows are not exactly the threads' vectors"
    least = 16 if problem.rings == "prefer" else RING_ROW_BYTES
    reason = unfit_for_tiles(rows, problem, least, params.cluster)
    if reason:
        return reason
    if _slots(rows, params, problem) < 2:
        return "two slots do not fit in shared memory"
    return ""


def _slots(rows: Rows, params: InnerOuterParams, problem: Problem) -> int:
    """Slots of a block's ring: enough to have memory busy, as many as fit."""
    slot = params.block_y * (length_of(rows, problem) // params.cluster) * rows.loaded
    elements = params.block_x * params.unroll * params.vector
    sums = _shared_sums(rows, elements, params.block_y)
    room = SHARED_PER_SM // params.blocks_per_sm - SHARED_FIXED - sums
    wanted = 1 + -(-RING_BYTES // (params.blocks_per_sm * slot))
    return min(max(2, wanted), room // slot)


def blocks(rows: Rows, params: InnerOuterParams, problem: Problem) -> int:
    """Blocks, or clusters, that go round the rows: all that run at once, unless there are fewer
    rows.
    """
    kept = math.prod(problem.size(axis.extent) for axis in rows.axes if not axis.is_reduction)
    multiprocessors = problem.target.sm_count
    if params.cluster > 2:
        multiprocessors = min(multiprocessors, CLUSTERED_SMS)
    wanted = max(1, params.blocks_per_sm * multiprocessors // params.cluster)
    count = max(1, min(wanted, -(-kept // (params.block_y * params.kept_unroll))))
    return count * params.block_y if params.apart else count


def _shared_sums(rows: Rows, elements: int, block_y: int) -> int:
    """Bytes of shared memory in which a block adds what its rows of threads summed."""
    return rows.summed * elements * block_y if block_y > 1 else 0


def _best(rows: Rows, residents: tuple[Choice, ...], problem: Problem) -> InnerOuterParams | None:
    """A row in as few blocks as can keep it."""
    for cluster in CLUSTERS:
        found = _spread(rows, residents, problem, cluster)
        if found is not None:
            return found
    return None


def _spread(
    rows: Rows, residents: tuple[Choice, ...], problem: Problem, cluster: int
) -> InnerOuterParams | None:
    """The first way to keep a row in so many blocks that has enough in flight, else the one that
    has most.
    """
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


def length_of(rows: Rows, problem: Problem) -> int:
    """Elements of a row."""
    return math.prod(problem.size(axis.extent) for axis in rows.axes if axis.is_reduction)


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
        return self.registers <= MOST_REGISTERS and self.unroll * self.vector <= MOST_ELEMENTS

    def blocks_per_sm(self, threads: int) -> int:
        """Blocks that a multiprocessor has registers for.

        It hands them out 8 a thread, and each of its quarters has its own for a quarter of the
        warps.
        """
        warp = 32 * min(256, 8 * -(-self.registers // 8))
        warps = 4 * (REGISTERS_PER_SM // 4 // warp)
        return min(warps // -(-threads // 32), MOST_BLOCKS_PER_SM)
