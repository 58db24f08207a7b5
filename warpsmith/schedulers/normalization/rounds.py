"""Blocks that go round rows which a role of its own loads, into groups of warps that take turns."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.ir.domains import ParallelType
from warpsmith.ir.exprs import tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.scalar import Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import rfactor
from warpsmith.schedule.inline import inline_at, inline_most
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.rings import circular_buffer
from warpsmith.schedule.transforms import merge, parallelize, reorder, split
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.normalization.heuristic import InnerPersistentParams, Rows, rows_of
from warpsmith.schedulers.normalization.resident import compute_again, full_size, shared_loads
from warpsmith.schedulers.reduction.can import reductions
from warpsmith.schedulers.tiles import (
    copies_of,
    divide_rows,
    divide_weights,
    fill_ahead,
    through_shared,
)

BLOCKS = "row_blocks"
"""Name of the symbol: blocks that go round the rows."""

TURN, SIDE = 1, 2
"""Places of the loops over a block's turns, and over its groups."""


def apply(fusion: Fusion, caches: tuple[Cached, ...], params: InnerPersistentParams) -> None:
    """Loops of every tensor that walks rows, K kept and R reduced:

    `[K grid_x, K serial, K block_y, K unroll | R serial, R unroll, R block_x, R vector]`

    Row `r` of a turn is that of a group, `r mod block_y`. The first unrolled loop is there for
    several rows of a thread. What all rows share is loaded once, before the first turn, into
    registers or shared memory; what a row has one of is loaded a turn ahead.
    """
    full = full_size(fusion, DomainMap(fusion), caches)
    shared = shared_loads(fusion, caches)
    tiles = through_shared(c for c in caches if c.load and id(c.register) in full)
    weights = [c for c in caches if c.load and id(c.register) in shared]
    kept = through_shared(weights) if params.weights_in_shared else ()
    there = set(map(id, kept)) or set(shared)
    there |= set(map(id, tiles)) if params.reread else set()
    compute_again(fusion, again=params.again, there=there)
    _load_first(fusion, caches, full, kept)
    domains = DomainMap(fusion)
    rows = rows_of(fusion, domains, caches)
    fusion.divisors |= {(rows.run.extent, params.vector)}
    fusion.blocks_per_sm = params.blocks_per_sm
    first, *others = reductions(fusion)
    row = _divide(fusion, domains, rows, first, tiles, params)
    divide_weights(fusion, kept, _elements(params))
    apart = {*map(id, tiles), *map(id, kept)}
    alike = [t for t in fusion.computed if id(t) not in apart and t is not first]
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
    _inline(fusion, row)
    for cached in caches:
        register = cached.register
        if not cached.load:
            continue
        if id(register) in full:
            if not params.reread:
                register.compute_at = min(register.compute_at, row)
        elif id(register) in shared:
            if not kept:
                register.compute_at = min(register.compute_at, TURN)
        elif register.compute_at > TURN:  # what a row has one of
            circular_buffer(register, 2)
    for tile in tiles:
        tile.compute_at = SIDE
        fill_ahead(tile, params.ring, SIDE, specialize=True)


def _divide(
    fusion: Fusion,
    domains: DomainMap,
    rows: Rows,
    first: TensorView,
    tiles: Sequence[TensorView],
    params: InnerPersistentParams,
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
    _merge_all(first, keeps, len(first.loop))
    _merge_all(first, 0, keeps)
    if params.kept_unroll > 1:
        split(first, 0, params.kept_unroll)
    split(first, 0, params.block_y)
    split(first, 0, Symbol(BLOCKS, low=1))
    reorder(first, {0: 1, 1: 0})  # blocks, turns, groups, rows of a thread, a row
    divide_rows(fusion, tiles, first, _elements(params), 1)
    row = len(first.loop) - 1
    split(first, row, params.vector)
    vectors = DomainMap(fusion).extent_of(first.loop[row])
    threads = params.unroll * params.block_x
    fusion.limits |= {(vectors, threads)}
    if params.whole:
        fusion.divisors |= {(vectors, threads)}
    split(first, row, threads)
    split(first, row + 1, params.block_x)
    return row


def _elements(params: InnerPersistentParams) -> int:
    """Of a row."""
    return params.row or params.unroll * params.block_x * params.vector


def _merge_all(tensor: TensorView, start: int, end: int) -> None:
    """Merge the loops `start .. end - 1` into one."""
    for _ in range(end - start - 1):
        merge(tensor, start)


def _load_first(
    fusion: Fusion, caches: tuple[Cached, ...], full: set[int], kept: Sequence[TensorView]
) -> None:
    """Bring the copies of inputs to the front: what is read from shared memory all the time, which
    the role that loads it has to load first; whole rows; then what all rows share.
    """
    loads = [c for c in caches if c.load and (id(c.register) in full or not kept)]
    ordered = sorted(loads, key=lambda c: id(c.register) not in full)
    copies = [*(reader for tile in kept for reader in fusion.consumers(tile))]
    copies += [c.register for c in ordered]
    front = [copy.definition for copy in copies if copy.definition is not None]
    moved = set(map(id, front))
    fusion.operations = [*front, *(op for op in fusion.operations if id(op) not in moved)]


def _inline(fusion: Fusion, row: int) -> None:
    """As deep as it goes; reductions across a group take all rows of a thread together."""
    early: dict[int, TensorView] = {}
    if row > SIDE + 1:
        for operation in fusion.operations:
            loop = operation.outputs[0].loop
            if any(axis.is_reduction and axis.parallel.is_thread for axis in loop):
                for tensor in (*operation.outputs, *tensor_inputs(operation)):
                    early[id(tensor)] = tensor
        inline_at(reductions(fusion)[0], SIDE + 1, best_effort=True)
    inline_most(fusion, [t for t in fusion.computed if id(t) not in early])
