"""Schedule rows that stay in registers by their parameters."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.ir.domains import ParallelType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import map_of
from warpsmith.ir.reads import Read
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import rfactor
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.transforms import parallelize, reorder, split, split_across
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.cover import divide_row, merge_all, order_loops
from warpsmith.schedulers.reduction.applicability import reductions
from warpsmith.schedulers.rows.applicability import walks_rows
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.rows.recompute import recompute, runs_of
from warpsmith.schedulers.rows.rows import Rows
from warpsmith.schedulers.tiles import (
    copies_of,
    divide_weights,
    inline_rows,
    loads_first,
    through_shared,
)

ROW_LOOPS = (
    ParallelType.serial,
    ParallelType.unroll,
    ParallelType.block_x,
    ParallelType.serial,
)
"""A block's row: its one part, accesses of a thread, threads, elements of an access."""


def apply(fusion: Fusion, caches: tuple[Cached, ...], params: RowParams) -> None:
    """Loops of every tensor that walks rows, K kept and R reduced:

    `[K grid_x, K block_y, K unroll | R cluster_x, R serial, R unroll, R block_x, R vector]`

    The first unrolled loop is there for several rows a thread, the cluster's for rows of several
    blocks. The serial loop is one iteration, which holds all that a block has of a row. Loads come
    before everything else, a loop nest each; what all rows share may be brought to shared memory
    before them, by the TMA unit, and is read from there where it is used. Each reduction is done
    within a thread, lane by lane of its vectors, then over the lanes, then across the block and the
    cluster, whose every thread gets the result.
    """
    tiles: tuple[TensorView, ...] = ()
    if params.weights_in_shared:
        tiles = through_shared(Rows(fusion, map_of(fusion), caches).weights)
    recompute(fusion, runs_of(fusion, again=params.again), apart=True)
    domains = map_of(fusion)
    rows = Rows(fusion, domains, caches)
    full = {cached.register for cached in rows.full}
    order = {domains.group(axis): place for place, axis in enumerate(rows.axes)}
    if not params.across:
        fusion.divisors |= {(rows.run.extent, params.vector)}
    fusion.blocks_per_sm = params.blocks_per_sm
    loads_first(fusion, caches, full, tiles, reload_weights=params.reload_weights)
    fusion.bring_first(_reads_of_one(fusion))
    first, *others = reductions(fusion)
    keeps = order_loops(first, domains, order)
    _divide(fusion, first, keeps, len(rows.run.axes) - rows.run.start, params)
    part = params.unroll * params.block_x * params.vector
    uneven = not params.exact
    divide_weights(fusion, tiles, part, params.cluster, uneven=uneven, specialize=False)
    lengths = map_of(fusion)
    fusion.divisors |= {(lengths.extent_of(t.logical[-1]), params.vector) for t in tiles}
    apart = {first, *tiles}
    alike = [tensor for tensor in fusion.computed if tensor not in apart]
    transform_like(first, alike)
    outer, row = _parallelize(first, keeps, params)
    parallelize_like(first, selected_tensors=alike)
    for tensor in (first, *others):
        rfactor(tensor, [row, row + 1])
        rfactor(tensor, [row + 1])
    passing = params.reload_weights and not params.together
    whole = {c.register for c in caches if c.register in full or not passing}
    streaming = full if params.streaming else set()
    spread(fusion, caches, params.vectorized, first, outer, streaming, whole, tiles)
    for cached in caches:
        cached.register.evict_last = params.evict_last and cached.register in full


def _reads_of_one(fusion: Fusion) -> list[Read]:
    """The reads of what there is once a row, which would else be waited for behind what all rows
    share.
    """
    rows = walks_rows(fusion)
    reads = (op for op in fusion.operations if isinstance(op, Read) and op.is_one)
    return [read for read in reads if read.output not in rows]


def _divide(fusion: Fusion, tensor: TensorView, keeps: int, run: int, params: RowParams) -> None:
    """`[K blocks, K block_y, K unroll, R cluster, R serial, R unroll, R block_x, R vector]`."""
    end = len(tensor.loop)
    merge_all(tensor, end - run, end)
    if params.across:
        merge_all(tensor, 0, keeps)
        keeps = 1
        if params.full:
            passes = (params.cluster - 1) * params.unroll + params.full
            length = map_of(fusion).extent_of(tensor.loop[-1])
            fusion.least |= {(length, passes * params.block_x * params.vector)}
    split_vectors(fusion, tensor, params.vector, across=params.across)
    merge_all(tensor, keeps, len(tensor.loop) - 1)
    divide_row(
        fusion,
        tensor,
        keeps,
        params.unroll,
        params.block_x,
        cluster=params.cluster,
        exact=params.exact,
        full=0 if params.across else params.full,
    )
    if keeps:
        merge_all(tensor, 0, keeps)
        split(tensor, 0, params.block_y)
        if params.rows_per_thread > 1:
            split(tensor, 0, params.rows_per_thread)
            reorder(tensor, {1: 2})


def split_vectors(fusion: Fusion, tensor: TensorView, vector: int, *, across: bool) -> None:
    """Divide the last loop, over what lies in one piece, in vectors: `across` the begins and ends
    of pieces, of which each row, counted by the first loop, has one or several. Of several, one of
    all rows is a whole number of vectors.
    """
    if not across:
        split(tensor, -1, vector)
        return
    if len(tensor.loop) > 2:
        fusion.divisors |= {(map_of(fusion).extent_of(tensor.loop[0]), vector)}
    split_across(tensor, -1, vector, 0)


def _parallelize(tensor: TensorView, keeps: int, params: RowParams) -> tuple[int, int]:
    """Bind the loops of a reduction; returns how many of them are outside a thread, and outside
    what a block has of a row.
    """
    kept = (ParallelType.grid_x, ParallelType.block_y) if keeps else ()
    several = (ParallelType.unroll,) if keeps and params.rows_per_thread > 1 else ()
    shared = (ParallelType.cluster_x,) if params.cluster > 1 else ()
    outside = (*kept, *several, *shared)
    for position, kind in enumerate((*outside, *ROW_LOOPS)):
        parallelize(tensor, position, kind)
    return len(kept), len(outside)


def spread(
    fusion: Fusion,
    caches: tuple[Cached, ...],
    vectorized: tuple[str, ...],
    reference: TensorView,
    outer: int,
    streaming: set[TensorView],
    whole: set[TensorView],
    tiles: Sequence[TensorView] = (),
) -> None:
    """Bind vectors, and inline: reductions across the block take all rows of a thread together, and
    the loads among `whole` are done before their first use.

    Everything shares the `outer` loops around a thread's rows; the rest then goes as deep as it
    can. The loads in `streaming` leave no copy in L1, and `tiles` are filled by one copy each.
    """
    early = set(tiles)
    for cached in caches:
        if cached.name in vectorized:
            for copy in copies_of(fusion, cached, tiles):
                parallelize(copy, -1, ParallelType.vectorize)
        if cached.load:
            cached.register.streaming = cached.register in streaming
        if cached.load and cached.register in whole:
            early.add(cached.register)
    inline_rows(fusion, reference, outer, early)
