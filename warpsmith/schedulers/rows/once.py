"""Choice of threads a row, vectors a thread and rows a block where rows stay in registers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from warpsmith.schedulers.cover import full_passes
from warpsmith.schedulers.layout import is_one_row, unfit_for_copies
from warpsmith.schedulers.multiprocessor import CLUSTERS, SHARED_FIXED
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows.across import unfit_across, vector_across, vectorized_across
from warpsmith.schedulers.rows.model import LINE_BYTES, MOST_FEW
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.rows.predict import class_of
from warpsmith.schedulers.rows.registers import (
    MOST_ELEMENTS,
    MOST_THREADS,
    SHORT_VECTORS,
    Part,
    rows_of_block,
    shapes_of,
)
from warpsmith.schedulers.rows.resident import Choice
from warpsmith.schedulers.rows.rows import Rows
from warpsmith.schedulers.rows.work import VECTOR_BYTES
from warpsmith.targets.family import WARP

BYTES_IN_FLIGHT = 64
"""Bytes that a thread of a short row loads before it uses the first, and one that has narrow
accesses: 1024 threads of a multiprocessor then have 64 KB in flight, twice what saturates the
memory of an H200."""

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

MOST_NARROW = 6
"""Narrow accesses of a thread to a row up to which they may be better than vectors that go across
the begins and ends of rows: where they have less than NARROW_PIECE, or a warp has the row. With
more than 13, softmaxes of single elements reached 36 to 54 % of the ceiling, norms 39 to 78
(docs/lessons/odd_rows.md)."""

NARROW_PIECE = 8
"""Bytes of an access from which on the model knows many of them, and clusters of rows in pieces."""

MOST_SINGLES = 8
"""Accesses of a thread to short rows that are read element by element: each has a predicate and an
address, and each row its results."""


def candidates(rows: Rows, problem: Problem) -> list[RowParams]:
    """The ways to keep a row whose registers fit, in one block and in several."""
    length, sizes, weights = rows.length(problem), rows.sizes, rows.weights
    fit = problem.rings != "never" and all(is_one_row(c, rows.domains, rows.row) for c in weights)

    def ways(vector: int, cluster: int, *, across: bool = False) -> list[RowParams]:
        in_shared = (
            cluster > 1 and fit and not (across or unfit_for_copies(weights, length, problem))
        )
        each = (
            _spread(
                rows, sizes, c, length, vector, cluster, problem, in_shared=in_shared, across=across
            )
            for c in (_waiting_for_nothing(rows) if across else rows.residents)
        )
        return [params for found in each for params in found]

    clusters = problem.target.runs(CLUSTERS)
    vector = rows.run.vector(problem)
    if rows.in_pieces or is_narrow(vector, sizes):
        widest, across = vector_across(rows, problem), list[RowParams]()
        if vector < widest and not unfit_across(rows, problem):
            across = [each for cluster in clusters for each in ways(widest, cluster, across=True)]
        if rows.in_pieces and not is_narrow(vector, sizes, NARROW_PIECE):
            return across + [each for cluster in clusters for each in ways(vector, cluster)]
        narrow = _in_fewest(ways(vector, cluster) for cluster in clusters)
        known = not is_narrow(vector, sizes, NARROW_PIECE)
        few = [p for p in narrow if p.unroll <= MOST_NARROW or (known and p.block_x > WARP)]
        return across + few if across else narrow
    found = [params for cluster in clusters for params in ways(vector, cluster)]
    if vector > NARROW_VECTOR and all(params.block_x > MOST_THREADS for params in found):
        return ways(NARROW_VECTOR, clusters[-1]) or found
    return found


def _waiting_for_nothing(rows: Rows) -> tuple[Choice, ...]:
    """The ways to have rows across whose begins and ends vectors go.

    A vector of what all rows share is put together of two there, as soon as they are loaded: before
    the first sum it would be waited for, and takes up to 1.4 times (docs/lessons/odd_rows.md).
    """
    late = tuple(c for c in rows.residents if c.reload_weights)
    return rows.residents if rows.in_pieces else late or rows.residents


def is_narrow(vector: int, sizes: Sequence[int], least: int = VECTOR_BYTES) -> bool:
    """Whether accesses to inputs whose elements have such sizes have fewer bytes."""
    return vector * max(sizes, default=4) < least


def _in_fewest(ways: Iterable[list[RowParams]]) -> list[RowParams]:
    """A row in one block, else in as few as keep it with room to spare, else in the most.

    So with narrow accesses, of whose clusters the model knows nothing.
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
    across: bool,
) -> Iterator[RowParams]:
    """The shapes of blocks of which so many have a row.

    What all rows share may wait `in_shared` memory where it is not in registers. Vectors that go
    `across` the begins and ends of rows may be one more.
    """
    piece = problem.size(rows.run.extent)
    vectors = length // piece * -(-(piece + across * (vector - 1)) // vector)
    few = vectors <= cluster * SHORT_VECTORS or length * sum(sizes) < CLUSTER_BYTES
    if cluster > 1 and few:
        return
    row = Part(
        vectors=-(-vectors // cluster),
        vector=vector,
        size=choice.bytes_per_element(vector),
        passing=choice.passing,
        in_pieces=rows.in_pieces,
        inputs=len(sizes),
        narrow=rows.in_pieces or is_narrow(vector, sizes),
        costly=choice.kept > 0 and not choice.again,
        clustered=cluster > 1,
        across=across,
        limits=problem.target.family.limits,
    )
    # two weights at once, or vectors across, are no faster (docs/lessons/idle_threads.md)
    waits = choice.passing > 0 and len(rows.weights) == 1 and not across
    waits &= rows.count(problem) <= MOST_FEW * problem.target.sm_count
    count = class_of(rows.count(problem), problem.target)
    many = count == class_of(1 << 40, problem.target)  # that of any more
    loaded, widest = sum(sizes), max(sizes, default=4)
    accesses = max(1, BYTES_IN_FLIGHT // (vector * max(1, loaded)))
    line = max(1, LINE_BYTES // (vector * widest))
    for block_x, unroll in shapes_of(row, accesses, line):
        lanes = block_x <= 32 and row.vectors <= row.short
        exact = block_x * unroll == row.vectors and not across
        most = accesses if vector > 1 else min(accesses, MOST_SINGLES)
        single = not lanes or (vector > 1 and row.narrow and not exact)
        rows_per_thread = 1 if single else max(1, most // unroll)
        at_once = problem.target.sm_count * rows_of_block(block_x)
        while not many and rows_per_thread > 1 and count < at_once * rows_per_thread:
            rows_per_thread //= 2  # no thread has several while a multiprocessor has none
        results = 0 if exact else rows_per_thread - 1
        blocks = row.blocks_per_sm(block_x, rows_per_thread * unroll + results)
        if cluster > 1 and vector < NARROW_VECTOR:
            blocks = min(blocks, max(2, NARROW_THREADS // block_x))
        whole = vectors == cluster * block_x * unroll and not across
        if not blocks:
            continue
        params = RowParams(
            vector=vector,
            unroll=unroll,
            rows_per_thread=rows_per_thread,
            cluster=cluster,
            block_x=block_x,
            block_y=rows_of_block(block_x),
            blocks_per_sm=blocks,
            exact=whole,
            full=_full(rows, length // vector if across else vectors, block_x, unroll, cluster),
            reload_weights=choice.reload_weights,
            together=waits and row.has_room(block_x, rows_per_thread * unroll + results),
            again=choice.again,
            vectorized=vectorized_across(rows, problem)
            if across
            else rows.run.vectorized(problem, vector),
            across=across,
        )
        yield params
        part = block_x * unroll * vector
        if in_shared and choice.reload_weights and (cluster - 1) * part < length:
            yield from _with_weights_in_shared(params, row, part * choice.passing)


def _full(rows: Rows, vectors: int, threads: int, passes: int, cluster: int) -> int:
    """Accesses of each thread that need no predicate in any block."""
    return 0 if rows.in_pieces else full_passes(vectors, threads, passes, cluster)


def _with_weights_in_shared(params: RowParams, row: Part, weights: int) -> Iterator[RowParams]:
    """With one row of a thread and two, of which each block has so many bytes of weights."""
    room = row.limits.block_shared // (weights + SHARED_FIXED)
    for kept in (1, 2):
        few = kept * params.unroll * params.vector <= MOST_ELEMENTS
        blocks = min(room, row.blocks_per_sm(params.block_x, kept * params.unroll))
        if few and blocks:
            yield replace(
                params,
                rows_per_thread=kept,
                blocks_per_sm=blocks,
                together=False,
                weights_in_shared=True,
            )
