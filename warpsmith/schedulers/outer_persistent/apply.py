"""Schedule columns that stay in registers by their parameters."""

from __future__ import annotations

from warpsmith.ir.domains import ParallelType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import map_of
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import rfactor
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.transforms import parallelize, reorder, split
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.cover import divide_row, merge_all, order_loops
from warpsmith.schedulers.outer_persistent.heuristic import Columns
from warpsmith.schedulers.outer_persistent.shapes import OuterPersistentParams
from warpsmith.schedulers.reduction.applicability import reductions
from warpsmith.schedulers.rows.applicability import walks_rows
from warpsmith.schedulers.rows.apply import spread
from warpsmith.schedulers.rows.recompute import recompute, runs_of
from warpsmith.schedulers.tiles import loads_first

COLUMN_LOOPS = (
    ParallelType.serial,
    ParallelType.unroll,
    ParallelType.block_y,
    ParallelType.serial,
)
"""What a block has of columns: its one part, accesses of a thread, threads one below the other,
elements of an access."""

OUTSIDE = 2
"""Loops around the columns of a thread: blocks, and threads side by side."""


def apply(fusion: Fusion, caches: tuple[Cached, ...], params: OuterPersistentParams) -> None:
    """Loops of every tensor that walks columns, K kept and R reduced:

    `[K grid_x, K block_x | R cluster_x, R serial, R unroll, R block_y, K vector]`

    The cluster's loop is there for columns of several blocks. The serial loop is one iteration,
    which holds all that a block has of its columns. Loads come before everything else, a loop nest
    each. Each reduction is done within a thread, then across block_y and the cluster, all columns
    of a thread together; every thread gets the results of its columns.
    """
    recompute(fusion, runs_of(fusion, again=params.again))
    domains = map_of(fusion)
    columns = Columns(fusion, domains, caches)
    full = {cached.register for cached in columns.full}
    order = {domains.group(axis): place for place, axis in enumerate(columns.axes)}
    fusion.divisors |= {(columns.run.extent, params.vector)}
    fusion.blocks_per_sm = params.blocks_per_sm
    loads_first(fusion, caches, full, reload_weights=params.reload_weights)
    first, *others = reductions(fusion)
    keeps = order_loops(first, domains, order)
    _divide(fusion, first, keeps, len(columns.run.axes) - columns.run.start, params)
    transform_like(first)
    shared = (ParallelType.cluster_x,) if params.cluster > 1 else ()
    outside = (ParallelType.grid_x, ParallelType.block_x, *shared)
    for position, kind in enumerate((*outside, *COLUMN_LOOPS)):
        parallelize(first, position, kind)
    parallelize_like(first)
    for tensor in (first, *others):
        rfactor(tensor, [len(outside), len(outside) + 1])
    rows = walks_rows(fusion)
    passing = {c.register for c in caches if params.reload_weights and c.register in rows - full}
    whole = {c.register for c in caches} - passing
    spread(fusion, caches, params.vectorized, first, OUTSIDE, full, whole)


def _divide(
    fusion: Fusion, tensor: TensorView, keeps: int, run: int, params: OuterPersistentParams
) -> None:
    """From `[K.., R..]`, both in memory order, to the loops of every tensor."""
    merge_all(tensor, keeps, len(tensor.loop))
    divide_row(
        fusion,
        tensor,
        keeps,
        params.unroll,
        params.block_y,
        cluster=params.cluster,
        exact=params.exact,
        full=params.full,
    )
    merge_all(tensor, keeps - run, keeps)
    vectors = keeps - run
    split(tensor, vectors, params.vector)
    merge_all(tensor, 0, vectors + 1)
    if params.even:
        fusion.divisors |= {(map_of(fusion).extent_of(tensor.loop[0]), params.block_x)}
    split(tensor, 0, params.block_x)
    reorder(tensor, {2: len(tensor.loop) - 1})
