"""Blocks that go round rows which a role of its own loads, into groups of warps that take turns."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.ir.domains import ParallelType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.scalar import Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import rfactor
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.rings import circular_buffer
from warpsmith.schedule.transforms import parallelize, reorder, split
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.cover import divide_row, merge_all
from warpsmith.schedulers.normalization.recompute import recompute, runs_of
from warpsmith.schedulers.normalization.resident import full_size, weights_of
from warpsmith.schedulers.normalization.rows import Rows, rows_of
from warpsmith.schedulers.reduction.applicability import reductions
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.tiles import (
    copies_of,
    divide_rows,
    divide_weights,
    fill_ahead,
    inline_rows,
    loads_first,
    through_shared,
)

BLOCKS = "row_blocks"
"""Name of the symbol: blocks that go round the rows."""

TURN, SIDE = 1, 2
"""Places of the loops over a block's turns, and over its groups."""


def apply(fusion: Fusion, caches: tuple[Cached, ...], params: RowParams) -> None:
    """Loops of every tensor that walks rows, K kept and R reduced:

    `[K grid_x, K serial, K block_y, K unroll | R serial, R unroll, R block_x, R vector]`

    Row `r` of a turn is that of a group, `r mod block_y`. The first unrolled loop is there for
    several rows of a thread. What all rows share is loaded once, before the first turn, into
    registers or shared memory; what a row has one of is loaded a turn ahead.
    """
    full = full_size(fusion, DomainMap(fusion), caches)
    weights = weights_of(fusion, caches)
    shared = {cached.register for cached in weights}
    loads = [c for c in caches if c.load and c.register in full]
    tiles = through_shared(loads, chunks=params.chunks)
    kept = through_shared(weights) if params.weights_in_shared else ()
    there = set(kept) or set(shared)
    there |= set(tiles) if params.reread else set()
    recompute(fusion, runs_of(fusion, again=params.again, there=there))
    loads_first(fusion, caches, full, kept, reload_weights=False)
    domains = DomainMap(fusion)
    rows = rows_of(fusion, domains, caches)
    fusion.divisors |= {(rows.run.extent, params.vector)}
    fusion.blocks_per_sm = params.blocks_per_sm
    first, *others = reductions(fusion)
    row = _divide(fusion, domains, rows, first, tiles, params)
    divide_weights(fusion, kept, _elements(params), specialize=True)
    apart = {*tiles, *kept}
    alike = [t for t in fusion.computed if t not in apart and t is not first]
    transform_like(first, alike)
    several = (ParallelType.unroll,) * (row - SIDE - 1)
    outside = (ParallelType.grid_x, ParallelType.serial, ParallelType.block_y, *several)
    inside = (ParallelType.serial, ParallelType.unroll, ParallelType.block_x)
    for position, kind in enumerate((*outside, *inside)):
        parallelize(first, position, kind)
    parallelize_like(first, selected_tensors=alike)
    for tensor in (first, *others):
        rfactor(tensor, [row, row + 1])
        rfactor(tensor, [row + 1])
    for cached in caches:
        if cached.name in params.vectorized:
            for copy in copies_of(fusion, cached, (*tiles, *kept)):
                parallelize(copy, -1, ParallelType.vectorize)
    inline_rows(fusion, reductions(fusion)[0], SIDE + 1, row)
    for cached in caches:
        register = cached.register
        if not cached.load:
            continue
        if register in full:
            if not params.reread:
                register.compute_at = min(register.compute_at, row)
        elif register in shared:
            if not kept:
                register.compute_at = min(register.compute_at, TURN)
        elif register.compute_at > TURN:  # what a row has one of
            circular_buffer(register, 2)
    for tile in tiles:
        tile.evict_last = params.evict_last
        tile.compute_at = SIDE
        fill_ahead(tile, params.ring, SIDE, specialize=True)


def _divide(
    fusion: Fusion,
    domains: DomainMap,
    rows: Rows,
    first: TensorView,
    tiles: Sequence[TensorView],
    params: RowParams,
) -> int:
    """Give a reduction, and the tiles, their loops; returns the place of the first one in a row."""
    order = {domains.group(axis): place for place, axis in enumerate(rows.axes)}
    assert first.definition is not None
    for output in first.definition.outputs:
        output.loop = [axis for axis in output.loop if not axis.is_broadcast]
    loop = first.loop
    places = [(axis.is_reduction, order[domains.group(axis)]) for axis in loop]
    wanted = sorted(range(len(loop)), key=lambda p: places[p])
    reorder(first, {old: new for new, old in enumerate(wanted)})
    keeps = sum(not axis.is_reduction for axis in first.loop)
    merge_all(first, keeps, len(first.loop))
    merge_all(first, 0, keeps)
    if params.rows_per_thread > 1:
        split(first, 0, params.rows_per_thread)
    split(first, 0, params.block_y)
    split(first, 0, Symbol(BLOCKS, low=1))
    reorder(first, {0: 1, 1: 0})  # blocks, turns, groups, rows of a thread, a row
    divide_rows(fusion, tiles, first, _elements(params), 1)
    row = len(first.loop) - 1
    split(first, row, params.vector)
    full = params.row // (params.vector * params.block_x)
    divide_row(fusion, first, row, params.unroll, params.block_x, exact=params.exact, full=full)
    return row


def _elements(params: RowParams) -> int:
    """Of a row."""
    return params.row or params.unroll * params.block_x * params.vector
