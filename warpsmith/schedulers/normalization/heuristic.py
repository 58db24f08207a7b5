"""Choice of threads a row, vectors a thread and rows a block where rows stay in registers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from warpsmith.ir.domains import IterDomain
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap
from warpsmith.schedulers.caching import Cached, past_l1
from warpsmith.schedulers.layout import InnerRun, find_inner_run
from warpsmith.schedulers.normalization.resident import Choice, full_size
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.can import reductions
from warpsmith.schedulers.reduction.heuristic import memory_ordered

BLOCK_THREADS = 128
"""Threads of a block that has several short rows."""

SHORT_VECTORS = 128
"""Rows of up to this many vectors are reduced by the lanes of one warp, without barriers."""

LINE_BYTES = 128
"""Bytes next to each other that the lanes of a short row read at once, where it has so many."""

BYTES_IN_FLIGHT = 64
"""Bytes that a thread loads before it uses the first: 1024 threads of a multiprocessor then have
64 KB in flight, twice what saturates the memory of an H200."""

MOST_THREADS = 512
"""Threads of a row, unless its registers need more: two such blocks share a multiprocessor, and one
loads while the other stores."""

REGISTERS_PER_SM = 65536
MOST_REGISTERS = 90
"""Registers that a thread may need by this count: where it says more, kernels spill even with
128."""
MOST_BLOCK_THREADS = 1024
MOST_BLOCKS_PER_SM = 16

FIXED_REGISTERS = 12
"""Registers for addresses, predicates and results of reductions. With two for each element of a
vector, which is widened and computed, and those below, norms and softmaxes of 1024 to 16384 columns
spill two registers at most (NVRTC 13.0; tests/schedulers/test_persistent_registers.py)."""

PREDICATE_REGISTERS = 8
"""More of them in blocks of several rows, which may run past the last one."""

PLACE_REGISTERS, SINGLE_REGISTERS = 1.5, 2
"""Registers for the place of an access in a row of several pieces: vectors, and single elements
(found with NVRTC 13.0 as those above; test_channels_outer.py)."""

RESIDENT_BYTES = 49152
"""Bytes of rows that a multiprocessor is to hold at once. A part of them is being loaded, some 16
KB at any time, while the others are reduced or stored."""

CLUSTERS = (1, 2, 4, 8, 16)
"""Blocks over which a row may be spread."""

ROOMY_ELEMENTS = 32
"""Elements of a row in one thread of a cluster up to which nothing spills, where two blocks share a
multiprocessor (NVRTC 13.0; tests/schedulers/test_cluster_rows.py)."""

NARROW_VECTOR = 4
"""Elements of an access where a row is so long that a thread has registers for no more."""

NARROW_THREADS = 960
"""Threads of a multiprocessor, where blocks of a cluster have narrower accesses still: each has an
address and a predicate of its own, for which the count of registers has no room."""

MOST_SINGLES = 8
"""Accesses of a thread to short rows that are read element by element: each has a predicate and an
address, and each row its results."""

MOST_ELEMENTS = 128
"""Elements of a row in one thread: all loops over them are unrolled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerPersistentParams:
    """A schedule whose rows stay in registers.

    Attributes:
        vector: adjacent elements per thread and access.
        unroll: accesses of a row and input per thread, all issued before the first use.
        kept_unroll: rows of a thread, loaded and reduced together.
        cluster: blocks that share a row; 1 where it is one block's.
        block_x: threads of a block that a row has.
        block_y: rows that a block has side by side.
        blocks_per_sm: blocks that a multiprocessor holds at once.
        whole: the threads' vectors are exactly the row's, so that none needs a predicate.
        late: inputs that all rows share are loaded where they are used, not at the start.
        again: costly values are computed again, where that takes fewer registers than to keep them.
        vectorized: names of the global tensors accessed in vectors.
        warp_specialize: a role loads rows into a ring while blocks go round them, and block_y are
            groups that take turns.
        ring: slots of it.
        reread: rows are read from their slot again for each stage, not kept in registers.
        weights_in_shared: what all rows share stays in shared memory, not in registers.
        row: elements of a row, of which all are copied at once, where threads have not exactly
            these; else 0.
        streaming: loads of rows leave no copy in L1.
    """

    vector: int
    unroll: int
    kept_unroll: int
    cluster: int
    block_x: int
    block_y: int
    blocks_per_sm: int
    whole: bool
    late: bool
    again: bool
    vectorized: tuple[str, ...]
    warp_specialize: bool = False
    ring: int = 0
    reread: bool = False
    weights_in_shared: bool = False
    row: int = 0
    streaming: bool = False


@dataclass(frozen=True, slots=True)
class Rows:
    """The dimensions of the reductions in memory order, and the run that ends them.

    A row lies in several pieces where it has dimensions outside that run.
    """

    axes: tuple[IterDomain, ...]
    run: InnerRun

    @property
    def in_pieces(self) -> bool:
        run = len(self.run.axes) - self.run.start
        return sum(axis.is_reduction for axis in self.axes) > run


def rows_of(fusion: Fusion, domains: DomainMap, caches: tuple[Cached, ...]) -> Rows:
    """Order the dimensions as the largest input has them in memory."""
    axes = memory_ordered(domains, reductions(fusion)[0], caches)
    start = len(axes)
    while start and axes[start - 1].is_reduction:
        start -= 1
    return Rows(axes, find_inner_run(domains, axes[start:], caches))


def misfit(
    fusion: Fusion,
    domains: DomainMap,
    caches: tuple[Cached, ...],
    residents: tuple[Choice, ...],
    problem: Problem,
) -> str:
    """Why the rows of a call cannot stay in registers; empty where they can."""
    length = _length(fusion, problem)
    if length == 0:
        return "its rows are empty"
    if _choose(fusion, domains, caches, residents, problem) is None:
        return f"rows of {length} elements do not fit in the registers of {CLUSTERS[-1]} blocks"
    return ""


def choose(
    fusion: Fusion,
    domains: DomainMap,
    caches: tuple[Cached, ...],
    residents: tuple[Choice, ...],
    problem: Problem,
) -> InnerPersistentParams:
    """Everything follows from the row's length; a new row count changes how rows are cached, where
    it makes few bytes many.
    """
    params = _choose(fusion, domains, caches, residents, problem)
    assert params is not None, "misfit was not asked"
    return replace(params, streaming=past_l1(caches, problem))


def _choose(
    fusion: Fusion,
    domains: DomainMap,
    caches: tuple[Cached, ...],
    residents: tuple[Choice, ...],
    problem: Problem,
) -> InnerPersistentParams | None:
    """A row in one block, else in as few as keep it with room to spare, else in the most."""
    rows = fusion, domains, caches, residents, problem
    found: InnerPersistentParams | None = None
    for cluster in CLUSTERS:
        spread = _spread(*rows, cluster)
        if spread is not None and (cluster == 1 or _is_roomy(spread)):
            return spread
        found = spread or found
    if found is None or (found.block_x > MOST_THREADS and found.vector > NARROW_VECTOR):
        return _spread(*rows, CLUSTERS[-1], NARROW_VECTOR) or found
    return found


def _is_roomy(params: InnerPersistentParams) -> bool:
    return params.blocks_per_sm > 1 and params.unroll * params.vector <= ROOMY_ELEMENTS


def _spread(
    fusion: Fusion,
    domains: DomainMap,
    caches: tuple[Cached, ...],
    residents: tuple[Choice, ...],
    problem: Problem,
    cluster: int,
    widest_vector: int = 16,
) -> InnerPersistentParams | None:
    """The first way to keep a row in so many blocks that keeps enough rows at once, else the one
    that keeps most.
    """
    rows = rows_of(fusion, domains, caches)
    run = rows.run
    vector = min(run.vector(problem), widest_vector)
    length = _length(fusion, problem)
    full = full_size(fusion, domains, caches)
    sizes = [c.memory.dtype.size for c in caches if c.load and id(c.register) in full]
    loaded, widest = sum(sizes), max(sizes, default=4)
    vectors = -(-length // vector)
    if cluster > 1 and -(-vectors // cluster) <= SHORT_VECTORS:
        return None
    best: InnerPersistentParams | None = None
    for choice in residents:
        row = _Row(
            vectors=-(-vectors // cluster),
            vector=vector,
            size=choice.bytes_per_element(max(1, 4 // vector)),
            passing=choice.passing,
            in_pieces=rows.in_pieces,
            inputs=len(sizes),
        )
        accesses = max(1, BYTES_IN_FLIGHT // (vector * max(1, loaded)))
        found = _block(row, accesses, max(1, LINE_BYTES // (vector * widest)))
        if found is None:
            continue
        block_x, unroll = found
        short = row.vectors <= SHORT_VECTORS
        most = accesses if vector > 1 else min(accesses, MOST_SINGLES)
        kept_unroll = max(1, most // unroll) if short else 1
        results = 0 if block_x * unroll == row.vectors else kept_unroll - 1
        blocks = row.blocks_per_sm(block_x, kept_unroll * unroll + results)
        if cluster > 1 and vector < NARROW_VECTOR:
            blocks = min(blocks, max(2, NARROW_THREADS // block_x))
        if best is None or blocks > best.blocks_per_sm:
            best = InnerPersistentParams(
                vector=vector,
                unroll=unroll,
                kept_unroll=kept_unroll,
                cluster=cluster,
                block_x=block_x,
                block_y=_rows_of_block(block_x),
                blocks_per_sm=blocks,
                whole=vectors == cluster * block_x * unroll,
                late=choice.late,
                again=choice.again,
                vectorized=run.vectorized(problem, vector),
            )
        part = row.vectors * vector * loaded
        resident = blocks * _rows_of_block(block_x) * kept_unroll * part
        if blocks > 1 and resident >= RESIDENT_BYTES:
            break
    return best


def _length(fusion: Fusion, problem: Problem) -> int:
    """Elements of a row."""
    reduced = (axis for axis in reductions(fusion)[0].logical if axis.is_reduction)
    return math.prod(problem.size(axis.extent) for axis in reduced)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """What a block has of a row: so many vectors, of elements with `size` bytes of registers each.

    For one vector there are `passing` bytes an element more. Where rows lie `in_pieces`, the place
    of each vector takes divisions, and stays in registers from its load to its store; and under
    predicates, the compiler keeps widened values of several `inputs`, too.
    """

    vectors: int
    vector: int
    size: int
    passing: int
    in_pieces: bool
    inputs: int

    def registers(self, threads: int, unroll: int) -> int:
        """Of a thread: what stays, a vector of floats being computed, and the rest."""
        several = PREDICATE_REGISTERS if _rows_of_block(threads) > 1 else 0
        stay = -(-unroll * self.vector * self.size // 4)
        if self.in_pieces:
            if self.inputs > 1 and threads * unroll != self.vectors:
                stay += stay // 2
            stay += math.ceil(unroll * (PLACE_REGISTERS if self.vector > 1 else SINGLE_REGISTERS))
        work = 2 * self.vector + -(-self.vector * self.passing // 4)
        return stay + work + FIXED_REGISTERS + several

    def blocks_per_sm(self, threads: int, unroll: int) -> int:
        """Blocks that a multiprocessor has registers for.

        It hands them out 8 a thread, and each of its quarters has its own for a quarter of the
        warps.
        """
        warp = 32 * 8 * -(-self.registers(threads, unroll) // 8)
        warps = 4 * (REGISTERS_PER_SM // 4 // warp)
        blocks = warps // -(-threads * _rows_of_block(threads) // 32)
        return min(blocks, MOST_BLOCKS_PER_SM)

    def fits(self, threads: int, unroll: int) -> bool:
        needed = self.registers(threads, unroll)
        small = needed <= MOST_REGISTERS and unroll * self.vector <= MOST_ELEMENTS
        return small and self.blocks_per_sm(threads, unroll) > 0


def _rows_of_block(threads: int) -> int:
    """Rows that a block has where one takes so many threads."""
    return max(1, BLOCK_THREADS // threads)


def _block(row: _Row, accesses: int, line: int) -> tuple[int, int] | None:
    """(threads of a row, accesses of each), or None where no block has the registers.

    Short rows take the lanes of a warp, or as few of them as read a `line` of vectors at once. Long
    ones take whole warps, as many as leave the fewest threads without work. A thread has about
    `accesses`.
    """
    if row.vectors <= SHORT_VECTORS:
        lanes = 1
        while (
            lanes < 32 and lanes < row.vectors and (lanes < line or lanes * accesses < row.vectors)
        ):
            lanes *= 2
        unroll = -(-row.vectors // lanes)
        return (lanes, unroll) if row.fits(lanes, unroll) else None
    near = (accesses, accesses - 1, accesses + 1, accesses + 2, 2 * accesses)
    far = range(4, MOST_ELEMENTS + 1, 4)
    for most in (MOST_THREADS, MOST_BLOCK_THREADS):
        for tried in (near, far):
            found = [
                (threads, unroll)
                for unroll in tried
                if unroll > 0
                and (threads := 32 * -(-row.vectors // (32 * unroll))) <= most
                and row.fits(threads, unroll)
            ]
            if found:
                return min(found, key=math.prod)
    return None
