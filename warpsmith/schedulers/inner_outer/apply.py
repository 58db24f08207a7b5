"""Schedule rows beside sums of columns by their parameters."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap, Group
from warpsmith.ir.scalar import Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import rfactor
from warpsmith.schedule.inline import inline_most
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.transforms import merge, parallelize, reorder, split
from warpsmith.schedulers.ahead import run_ahead, through_tiles
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.inner_outer.columns import BLOCKS, partial_sums, rows_alone
from warpsmith.schedulers.inner_outer.heuristic import InnerOuterParams, Rows, row_sums, rows_of
from warpsmith.schedulers.normalization.resident import compute_again, shared_loads

LOOPS = (
    ParallelType.grid_x,
    ParallelType.serial,
    ParallelType.block_y,
    ParallelType.serial,
    ParallelType.unroll,
    ParallelType.block_x,
    ParallelType.serial,
)
"""Blocks, turns of a block, rows that it has at a time; then a row: its one part, accesses of a
thread, threads, elements of an access."""

TURN, PART = 1, 3
"""Places of the loop over a block's turns, and of the first loop inside a row."""


def apply(fusion: Fusion, caches: tuple[Cached, ...], params: InnerOuterParams) -> None:
    """Loops of every tensor that walks rows, K kept and R reduced:

    `[K grid_x, K serial, K block_y | R serial, R unroll, R block_x, R vector]`

    A block goes round the rows; within one turn it does what rows that stay in registers ask for
    (`normalization/apply.py`). Sums of columns have the same loops and reduce K: over the turns in
    registers that live outside that loop, then across block_y. With a ring, the TMA unit brings
    whole rows to shared memory, `[K grid_x, K serial, K serial | R bulk]`, some turns ahead.
    """
    columns = partial_sums(fusion)
    with rows_alone(fusion, columns):
        sums = set(map(id, columns))
        shared = shared_loads(fusion, tuple(c for c in caches if id(c.register) not in sums))
        compute_again(fusion, again=params.again, there=shared)
    full = {id(c.register) for c in rows_of(fusion, DomainMap(fusion), caches).full}
    _load_first(fusion, caches, full, late=params.late)
    domains = DomainMap(fusion)  # sizes of one dimension go by the name of the first load's
    rows = rows_of(fusion, domains, caches)
    results = {id(t) for column in columns for t in fusion.consumers(column)}
    fusion.divisors |= {(rows.run.extent, params.vector)}
    fusion.blocks_per_sm = params.blocks_per_sm
    first, *others = row_sums(fusion)
    _rows_first(first, [domains.group(a) for a in columns[0].root if a.is_reduction], domains, rows)
    _divide_rows(first, rows, params)
    tiles = _tiles(fusion, rows, first, params) if params.ring else []
    _divide_row(fusion, first, PART, rows, params)
    for column in columns:
        _divide_columns(fusion, column, domains, rows, params)
    apart = {*map(id, columns), *map(id, tiles), *results}
    alike = [t for t in fusion.computed if id(t) not in apart and t is not first]
    transform_like(first, alike)
    for tensor in (first, *columns):
        for position, kind in enumerate(LOOPS):
            parallelize(tensor, position, kind)
    parallelize_like(first, selected_tensors=alike)
    for tensor in (first, *others):
        rfactor(tensor, [PART, PART + 1])
        rfactor(tensor, [PART + 1])
    running = [rfactor(column, [TURN])[0] for column in columns]
    stores = [t for t in fusion.computed if id(t) in results]
    transform_like(columns[0], stores)
    parallelize_like(columns[0], selected_tensors=stores)
    for cached in caches:
        if cached.name in params.vectorized:
            parallelize(cached.copy, -1, ParallelType.vectorize)
    inline_most(fusion, fusion.computed)
    for cached in caches:
        register = cached.register
        if cached.load and id(register) in full:
            register.streaming = not tiles
            register.compute_at = min(register.compute_at, PART)
        elif cached.load and id(register) in shared and not params.late:
            register.compute_at = min(register.compute_at, TURN)
    for tensor in running:
        tensor.compute_at = min(tensor.compute_at, TURN)
    for tile in tiles:
        tile.compute_at = TURN + 1
    run_ahead(tiles, params.ring)


def _tiles(
    fusion: Fusion,
    rows: Rows,
    reference: TensorView,
    params: InnerOuterParams,
) -> list[TensorView]:
    """A tile of each input of full size: the rows of a turn, of which one copy moves each."""
    whole = params.unroll * params.block_x * params.vector
    extent = DomainMap(fusion).extent_of(reference.loop[-1])
    fusion.divisors |= {(extent, whole)}
    fusion.limits |= {(extent, whole)}
    loads = [cached for cached in rows.full if cached.load]
    tiles = [through_tiles(cached, reference, 0, LoadStoreOpType.bulk) for cached in loads]
    for tile in tiles:
        split(tile, -1, whole)
        parallelize(tile, -1, ParallelType.tma)
        parallelize(tile, 0, LOOPS[0])
    return tiles


def _load_first(
    fusion: Fusion, caches: tuple[Cached, ...], full: Collection[int], *, late: bool
) -> None:
    """Bring the copies of inputs to the front: whole rows first, what all rows share after them."""
    loads = [c for c in caches if c.load and (id(c.register) in full or not late)]
    ordered = sorted(loads, key=lambda c: id(c.register) not in full)
    front = [c.register.definition for c in ordered if c.register.definition is not None]
    moved = set(map(id, front))
    fusion.operations = [*front, *(op for op in fusion.operations if id(op) not in moved)]


def _rows_first(tensor: TensorView, kept: Sequence[Group], domains: DomainMap, rows: Rows) -> None:
    """Bring the dimensions that sums of columns reduce first, then a row's in memory order."""
    assert tensor.definition is not None
    for output in tensor.definition.outputs:
        output.loop = [axis for axis in output.loop if not axis.is_broadcast]
    run = [domains.group(axis) for axis in rows.axes if axis.is_reduction]
    _arrange(tensor, [*kept, *run], domains)


def _arrange(tensor: TensorView, order: Sequence[Group], domains: DomainMap) -> None:
    """Put loops in the order of their groups."""
    place = {group: number for number, group in enumerate(order)}
    loop = tensor.loop
    wanted = sorted(range(len(loop)), key=lambda p: place[domains.group(loop[p])])
    reorder(tensor, {old: new for new, old in enumerate(wanted)})


def _divide_rows(tensor: TensorView, rows: Rows, params: InnerOuterParams) -> None:
    """From `[K.., R..]` to `[K blocks, K turns, K block_y, R..]`, with the run of R in one loop."""
    keeps = sum(not axis.is_reduction for axis in tensor.loop)
    _merge_run(tensor, rows)
    _merge_all(tensor, 0, keeps)
    split(tensor, 0, Symbol(BLOCKS, low=1))
    split(tensor, 0, params.block_y)
    reorder(tensor, {0: 1, 1: 2, 2: 0})


def _divide_columns(
    fusion: Fusion, tensor: TensorView, domains: DomainMap, rows: Rows, params: InnerOuterParams
) -> None:
    """From `[R.., K turns, K blocks]` to the loops of every tensor."""
    turns, each = tensor.loop[-2:]
    run = [domains.group(axis) for axis in rows.axes if axis.is_reduction]
    tensor.loop = [a for a in tensor.loop if not a.is_broadcast]
    _arrange(tensor, [domains.group(each), domains.group(turns), *run], domains)
    _merge_run(tensor, rows)
    split(tensor, TURN, params.block_y)
    _divide_row(fusion, tensor, PART, rows, params)


def _merge_run(tensor: TensorView, rows: Rows) -> None:
    end = len(tensor.loop)
    _merge_all(tensor, end - (len(rows.run.axes) - rows.run.start), end)


def _divide_row(
    fusion: Fusion, tensor: TensorView, start: int, rows: Rows, params: InnerOuterParams
) -> None:
    """The loops of a row, from `start` on: `[part, unroll, block_x, vector]`."""
    split(tensor, -1, params.vector)
    _merge_all(tensor, start, len(tensor.loop) - 1)
    vectors = DomainMap(fusion).extent_of(tensor.loop[start])
    threads = params.unroll * params.block_x
    fusion.limits |= {(vectors, threads)}
    if params.whole:
        fusion.divisors |= {(vectors, threads)}
    split(tensor, start, threads)
    split(tensor, start + 1, params.block_x)


def _merge_all(tensor: TensorView, start: int, end: int) -> None:
    """Merge the loops `start .. end - 1` into one."""
    for _ in range(end - start - 1):
        merge(tensor, start)
