"""Choice of threads a row, vectors a thread and rows a block where rows stay in registers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from warpsmith.schedulers.cover import full_passes
from warpsmith.schedulers.layout import is_one_row, unfit_for_copies
from warpsmith.schedulers.multiprocessor import CLUSTERS, SHARED_FIXED
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows.model import LINE_BYTES, VECTOR_BYTES
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.rows.resident import Choice
from warpsmith.schedulers.rows.rows import Rows
from warpsmith.targets.family import Limits

BLOCK_THREADS = 128
"""Threads of a block that has several short rows."""

SHORT_VECTORS = 128
"""Rows of up to this many vectors may be reduced by the lanes of one warp, without barriers."""

SHORT_NARROW = 320
"""The same where accesses are narrow and rows lie in one piece: a block for each such row has too
little on its way (instance norms of 13x13 and 17x17 pixels took twice as long as a copy; one H100,
2026-11-26)."""

BYTES_IN_FLIGHT = 64
"""Bytes that a thread of a short row loads before it uses the first, and one that has narrow
accesses: 1024 threads of a multiprocessor then have 64 KB in flight, twice what saturates the
memory of an H200."""

MOST_THREADS = 512
"""Threads of a row in pieces, unless its registers need more."""

MOST_REGISTERS = 160
"""Registers that a thread may need by this count."""

MOST_NARROW_REGISTERS = 90
"""The same with accesses of fewer than VECTOR_BYTES, or in several pieces: where it says more,
kernels spill even with 128."""

MOST_BLOCKS_PER_SM = 16

FEW_THREADS = 96
"""Of a row that has warps of its own. Two rows of 64 threads side by side meet at one barrier, and
took up to 10 % longer."""

MOST_COVERED = 1.25
"""Of a row, by threads some of which have none of it."""

FIXED_REGISTERS = 12
"""Registers for addresses, predicates and results of reductions. With two for each element of a
vector, which is widened and computed, and those below, norms and softmaxes of 1024 to 16384 columns
spill two registers at most (NVRTC 13.0; tests/schedulers/test_persistent_registers.py)."""

PREDICATE_REGISTERS = 8
"""More of them in blocks of several rows, which may run past the last one."""

NARROW_REGISTERS, CLUSTER_REGISTERS = 6, 6
"""More of them where accesses are narrow, and where they are in a cluster's blocks."""

WIDENED_REGISTERS = 0.25
"""More of them for each element, where costly operations are done on elements narrower than a
register: the compiler keeps some of them widened."""

PLACE_REGISTERS, SINGLE_REGISTERS = 1.5, 2
"""Registers for the place of an access in a row of several pieces: vectors, and single elements
(found with NVRTC 13.0 as those above; test_channels_outer.py)."""

CLUSTER_BYTES = 49152
"""Of a row, from which on clusters may be better than one block."""

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

MOST_WIDENED = 64
"""The same where elements narrower than a register go through costly operations."""

MOST_MASKED = 64
"""The same where threads have not exactly a row: with 80, loads wait for one another, and rows of
24576 took 40 % longer."""


def candidates(rows: Rows, problem: Problem) -> list[RowParams]:
    """The ways to keep a row whose registers fit, in one block and in several."""
    length, sizes, weights = rows.length(problem), rows.sizes, rows.weights
    fit = problem.rings != "never" and all(is_one_row(c, rows.domains, rows.row) for c in weights)

    def ways(vector: int, cluster: int) -> list[RowParams]:
        in_shared = (
            cluster > 1 and fit and not unfit_for_copies(weights, length // cluster, problem)
        )
        each = (
            _spread(rows, sizes, c, length, vector, cluster, problem, in_shared=in_shared)
            for c in rows.residents
        )
        return [params for found in each for params in found]

    clusters = problem.target.runs(CLUSTERS)
    vector = rows.run.vector(problem)
    if rows.in_pieces or is_narrow(vector, sizes):
        return _in_fewest(ways(vector, cluster) for cluster in clusters)
    found = [params for cluster in clusters for params in ways(vector, cluster)]
    if vector > NARROW_VECTOR and all(params.block_x > MOST_THREADS for params in found):
        return ways(NARROW_VECTOR, clusters[-1]) or found
    return found


def is_narrow(vector: int, sizes: Sequence[int]) -> bool:
    """Whether accesses to inputs whose elements have such sizes have fewer than VECTOR_BYTES."""
    return vector * max(sizes, default=4) < VECTOR_BYTES


def _in_fewest(ways: Iterable[list[RowParams]]) -> list[RowParams]:
    """A row in one block, else in as few as keep it with room to spare, else in the most.

    So with narrow accesses and rows in pieces, of whose clusters the model knows nothing.
    """
    kept: list[RowParams] = []
    for found in ways:
        roomy = [params for params in found if params.cluster == 1 or _is_roomy(params)]
        if roomy:
            return roomy
        kept = found or kept
    return kept


def _is_roomy(params: RowParams) -> bool:
    return params.blocks_per_sm > 1 and params.unroll * params.vector <= ROOMY_ELEMENTS


def _spread(
    rows: Rows,
    sizes: tuple[int, ...],
    choice: Choice,
    length: int,
    vector: int,
    cluster: int,
    problem: Problem,
    *,
    in_shared: bool,
) -> Iterator[RowParams]:
    """The shapes of blocks of which so many have a row.

    What all rows share may wait `in_shared` memory where it is not in registers.
    """
    vectors = -(-length // vector)
    few = vectors <= cluster * SHORT_VECTORS or length * sum(sizes) < CLUSTER_BYTES
    if cluster > 1 and few:
        return
    row = _Row(
        vectors=-(-vectors // cluster),
        vector=vector,
        size=choice.bytes_per_element(vector),
        passing=choice.passing,
        in_pieces=rows.in_pieces,
        inputs=len(sizes),
        narrow=rows.in_pieces or is_narrow(vector, sizes),
        costly=choice.kept > 0 and not choice.again,
        clustered=cluster > 1,
        limits=problem.target.family.limits,
    )
    loaded, widest = sum(sizes), max(sizes, default=4)
    accesses = max(1, BYTES_IN_FLIGHT // (vector * max(1, loaded)))
    line = max(1, LINE_BYTES // (vector * widest))
    for block_x, unroll in _blocks(row, accesses, line):
        lanes = block_x <= 32 and row.vectors <= row.short
        exact = block_x * unroll == row.vectors
        most = accesses if vector > 1 else min(accesses, MOST_SINGLES)
        single = not lanes or (vector > 1 and row.narrow and not exact)
        rows_per_thread = 1 if single else max(1, most // unroll)
        results = 0 if exact else rows_per_thread - 1
        blocks = row.blocks_per_sm(block_x, rows_per_thread * unroll + results)
        if cluster > 1 and vector < NARROW_VECTOR:
            blocks = min(blocks, max(2, NARROW_THREADS // block_x))
        whole = vectors == cluster * block_x * unroll
        if not blocks:
            continue
        params = RowParams(
            vector=vector,
            unroll=unroll,
            rows_per_thread=rows_per_thread,
            cluster=cluster,
            block_x=block_x,
            block_y=_rows_of_block(block_x),
            blocks_per_sm=blocks,
            exact=whole,
            full=0 if rows.in_pieces else full_passes(vectors, block_x, unroll, cluster),
            reload_weights=choice.reload_weights,
            again=choice.again,
            vectorized=rows.run.vectorized(problem, vector),
        )
        yield params
        if in_shared and choice.reload_weights and whole:
            yield from _with_weights_in_shared(params, row, length // cluster * choice.passing)


def _with_weights_in_shared(params: RowParams, row: _Row, weights: int) -> Iterator[RowParams]:
    """With one row of a thread and two, of which each block has so many bytes of weights."""
    room = row.limits.block_shared // (weights + SHARED_FIXED)
    for kept in (1, 2):
        few = kept * params.unroll * params.vector <= MOST_ELEMENTS
        blocks = min(room, row.blocks_per_sm(params.block_x, kept * params.unroll))
        if few and blocks:
            yield replace(
                params, rows_per_thread=kept, blocks_per_sm=blocks, weights_in_shared=True
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """What a block has of a row: so many vectors, of elements with `size` bytes of registers each.

    For one vector there are `passing` bytes an element more. Where rows lie `in_pieces`, the place
    of each vector takes divisions, and stays in registers from its load to its store; and under
    predicates, the compiler keeps widened values of several `inputs`, too. Accesses are `narrow`
    where they have not VECTOR_BYTES, and some operations `costly` that are not done again.
    Blocks of a cluster have parts that are `clustered`.
    """

    vectors: int
    vector: int
    size: int
    passing: int
    in_pieces: bool
    inputs: int
    narrow: bool
    costly: bool
    clustered: bool
    limits: Limits

    @property
    def fewest(self) -> int:
        """Threads that it takes at least, where it is long."""
        return BLOCK_THREADS if self.clustered else 32

    @property
    def short(self) -> int:
        """Vectors up to which the lanes of a warp may have it."""
        alone = self.narrow and not (self.in_pieces or self.clustered)
        return SHORT_NARROW if alone else SHORT_VECTORS

    @property
    def widens(self) -> bool:
        """Whether the compiler keeps some elements widened for costly operations."""
        return self.costly and self.size < 4

    def registers(self, threads: int, unroll: int) -> int:
        """Of a thread: what stays, a vector of floats being computed, and the rest."""
        more = PREDICATE_REGISTERS if _rows_of_block(threads) > 1 else 0
        if self.narrow and not self.in_pieces:
            more += NARROW_REGISTERS + (CLUSTER_REGISTERS if self.clustered else 0)
        stay = -(-unroll * self.vector * self.size // 4)
        if self.in_pieces:
            if self.inputs > 1 and threads * unroll != self.vectors:
                stay += stay // 2
            stay += math.ceil(unroll * (PLACE_REGISTERS if self.vector > 1 else SINGLE_REGISTERS))
        if self.widens:
            stay += math.ceil(WIDENED_REGISTERS * unroll * self.vector)
        work = 2 * self.vector + -(-self.vector * self.passing // 4)
        return stay + work + FIXED_REGISTERS + more

    def blocks_per_sm(self, threads: int, unroll: int) -> int:
        """Blocks that a multiprocessor has registers and threads for."""
        held = threads * _rows_of_block(threads)
        blocks = self.limits.blocks_of(self.registers(threads, unroll), held)
        return min(blocks, self.limits.sm_threads // held, MOST_BLOCKS_PER_SM)

    def fits(self, threads: int, unroll: int) -> bool:
        exact = threads * unroll == self.vectors
        deepest = MOST_ELEMENTS if exact or self.narrow else MOST_MASKED
        if self.widens:
            deepest = min(deepest, MOST_WIDENED)
        most = MOST_NARROW_REGISTERS if self.narrow else MOST_REGISTERS
        return (
            unroll * self.vector <= deepest
            and self.registers(threads, unroll) <= most
            and self.blocks_per_sm(threads, unroll) > 0
        )


def _rows_of_block(threads: int) -> int:
    """Rows that a block has where one takes so many threads."""
    return max(1, BLOCK_THREADS // threads)


def _blocks(row: _Row, accesses: int, line: int) -> Iterator[tuple[int, int]]:
    """(threads of a row, accesses of each) that have the registers.

    Short rows take the lanes of a warp, or as few of them as read a `line` of vectors at once. Long
    ones take whole warps. Where they lie in pieces a thread has about `accesses`.
    """
    if row.vectors <= row.short:
        lanes = 1
        while (
            lanes < 32 and lanes < row.vectors and (lanes < line or lanes * accesses < row.vectors)
        ):
            lanes *= 2
        unroll = -(-row.vectors // lanes)
        if row.fits(lanes, unroll):
            yield lanes, unroll
    if row.narrow and row.vectors <= row.short:
        return
    yield from _in_pieces(row, accesses) if row.in_pieces else _all_warps(row)


def _all_warps(row: _Row) -> Iterator[tuple[int, int]]:
    """Every number of warps that leaves few threads without work."""
    for unroll in range(1, MOST_ELEMENTS // row.vector + 1):
        threads = _threads(row, unroll)
        little = threads * unroll <= row.vectors * MOST_COVERED
        if (
            max(FEW_THREADS, row.fewest) <= threads <= row.limits.block_threads
            and little
            and row.fits(threads, unroll)
        ):
            yield threads, unroll


def _in_pieces(row: _Row, accesses: int) -> Iterator[tuple[int, int]]:
    """That which leaves the fewest threads without work."""
    near = (accesses, accesses - 1, accesses + 1, accesses + 2, 2 * accesses)
    far = range(4, MOST_ELEMENTS + 1, 4)
    for most in (MOST_THREADS, row.limits.block_threads):
        for tried in (near, far):
            found = [
                (threads, unroll)
                for unroll in tried
                if unroll > 0
                and row.fewest <= (threads := _threads(row, unroll)) <= most
                and row.fits(threads, unroll)
            ]
            if found:
                yield min(found, key=math.prod)
                return


def _threads(row: _Row, unroll: int) -> int:
    """In whole warps."""
    return 32 * -(-row.vectors // (32 * unroll))
