"""Schedule blocks that loop over rows by their parameters."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.ir.domains import ParallelType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap, Group, map_of
from warpsmith.ir.scalar import Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import rfactor
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.transforms import parallelize, reorder, split, split_across
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.cover import divide_cluster, divide_row, merge_all, order_loops
from warpsmith.schedulers.rows.columns import BLOCKS, blocks_of
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.rows.rows import Rows
from warpsmith.schedulers.rows.turn_loads import (
    GRID,
    SIDE,
    TURN,
    divide_tiles,
    loaded_by,
    place,
    put_in_order,
    run_ahead,
)
from warpsmith.schedulers.tiles import copies_of, inline_rows


def apply(fusion: Fusion, caches: tuple[Cached, ...], params: RowParams) -> None:
    """Loops of every tensor that walks rows, K kept and R reduced:

    `[K grid_x, K serial, K block_y, K unroll | R cluster_x, R serial, R unroll, R block_x,
    R vector]`

    The first unrolled loop is there for several rows a thread, the cluster's for rows of several
    blocks. A block loops over the rows; within one turn it does what rows that stay in registers
    ask for (`apply.py`). Sums of columns, where there are any, have the same loops and reduce K:
    over the turns in registers that live outside that loop, then across block_y. With a ring, the
    TMA unit brings whole rows to shared memory, some turns ahead,
    `[K grid_x, K serial, K serial, K serial | R bulk]`; or each thread copies there what it will
    read, in the loops of every tensor.

    Specialized, a role asks for them, and block_y are groups of warps that take turns: each has a
    stage at a time. Their sums are joined in the end, or each leaves a row of them.
    """
    given = Rows(fusion, map_of(fusion), caches)
    columns, row = given.columns, row_start(params)
    loaded = loaded_by(given, params)
    put_in_order(fusion, caches, columns, loaded, params)
    domains = map_of(fusion)  # sizes of one dimension go by the name of the first load's
    rows = Rows(fusion, domains, caches)
    results = {t for column in columns for t in fusion.consumers(column)}
    if not params.across:
        fusion.divisors |= {(rows.run.extent, params.vector)}
    fusion.blocks_per_sm = params.blocks_per_sm
    first, *others = rows.sums
    keeps = [axis for axis in columns[0].root if axis.is_reduction] if columns else rows.kept
    places = {domains.group(axis): place for place, axis in enumerate((*keeps, *rows.row))}
    order_loops(first, domains, places)
    _divide_rows(fusion, first, rows, params)
    brought = divide_tiles(fusion, first, loaded, params)
    _divide_row(fusion, first, SIDE + 1 + _several(params), rows, params)
    for column in columns:
        _divide_columns(fusion, column, domains, rows, params)
    apart = {*columns, *brought, *loaded.kept, *results}
    alike = [t for t in fusion.computed if t not in apart and t is not first]
    transform_like(first, alike)
    for tensor in (first, *columns):
        for position, kind in enumerate(loops_of(params)):
            parallelize(tensor, position, kind)
    parallelize_like(first, selected_tensors=alike)
    for tensor in (first, *others):
        rfactor(tensor, [row, row + 1])
        rfactor(tensor, [row + 1])
    running = list(columns)
    if not params.apart:
        turns = [TURN, *range(SIDE + 1, SIDE + 1 + _several(params))]
        running = [rfactor(column, turns)[0] for column in columns]
    stores = [t for t in fusion.computed if t in results]
    if params.apart:
        for store in stores:
            _divide_store(fusion, store, domains, rows, params)
    elif stores:
        transform_like(columns[0], stores)
        parallelize_like(columns[0], selected_tensors=stores)
    for cached in caches:
        if cached.name in params.vectorized:
            for copy in copies_of(fusion, cached, (*loaded.tiles, *loaded.kept)):
                parallelize(copy, -1, ParallelType.vectorize)
    last = Rows(fusion, domains, caches).sums[0]
    inline_rows(fusion, last, SIDE + 1, together=row > SIDE + 1)
    for cached in caches:
        if cached.load:
            place(cached.register, loaded, row, params)
    for tensor in running:
        tensor.compute_at = min(tensor.compute_at, TURN)
    for tile in loaded.tiles:
        run_ahead(tile, params)


def loops_of(params: RowParams) -> tuple[ParallelType, ...]:
    """Blocks, turns of a block, rows that it has at a time, blocks of a row; then what a block has
    of a row: its one part, accesses of a thread, threads, elements of an access."""
    several = (ParallelType.unroll,) * _several(params)
    shared = (ParallelType.cluster_x,) if params.cluster > 1 else ()
    return (
        ParallelType.grid_x,
        ParallelType.serial,
        ParallelType.block_y,
        *several,
        *shared,
        ParallelType.serial,
        ParallelType.unroll,
        ParallelType.block_x,
        ParallelType.serial,
    )


def _several(params: RowParams) -> int:
    """Loops over rows of a thread: one, or none."""
    return int(params.rows_per_thread > 1)


def row_start(params: RowParams) -> int:
    """Place of the first loop inside what a block has of a row."""
    return len(loops_of(params)) - 4


def _arrange(tensor: TensorView, order: Sequence[Group], domains: DomainMap) -> None:
    """Put loops in the order of their groups."""
    place = {group: number for number, group in enumerate(order)}
    loop = tensor.loop
    wanted = sorted(range(len(loop)), key=lambda p: place[domains.group(loop[p])])
    reorder(tensor, {old: new for new, old in enumerate(wanted)})


def _divide_rows(fusion: Fusion, tensor: TensorView, rows: Rows, params: RowParams) -> None:
    """From `[K.., R..]` to the loops over rows, and then `[R..]` with the run in one loop.

    Beside sums of columns, rows of a block are its blocks' number apart; else those of a turn
    follow one another.
    """
    keeps = sum(not axis.is_reduction for axis in tensor.loop)
    _merge_run(tensor, rows)
    merge_all(tensor, 0, keeps)
    blocks = blocks_of(fusion) if rows.columns else Symbol(BLOCKS, low=1)
    if not rows.columns:
        _divide_side(tensor, 0, params)
    elif params.apart:
        fusion.divisors |= {(blocks, params.block_y)}
    split(tensor, 0, blocks)
    reorder(tensor, {0: 1, 1: 0})
    if params.across:
        _divide_across(fusion, tensor, params)
    if rows.columns:
        _divide_turns(tensor, params)


def _divide_across(fusion: Fusion, tensor: TensorView, params: RowParams) -> None:
    """From a row in the last loop to `[one, cluster, part]`, or to `[one, part]` of one block:
    parts begin at multiples of a vector in memory, which is the same one for all rows of a block.
    """
    known = {(map_of(fusion).extent_of(tensor.loop[-1]), params.uneven)}
    fusion.limits |= known
    fusion.divisors |= {*known, (blocks_of(fusion), params.vector)}
    fusion.least |= known
    split_across(tensor, -1, params.row, GRID, grain=params.vector)
    if params.cluster > 1:
        fusion.limits |= {(map_of(fusion).extent_of(tensor.loop[-2]), params.cluster)}
        split(tensor, -2, params.cluster)


def _divide_turns(tensor: TensorView, params: RowParams) -> None:
    """From `[K blocks, K turns]` to `[K blocks, K turns, K block_y, K rows of a thread]`.

    Groups whose sums stay apart count as blocks.
    """
    if not params.apart:
        _divide_side(tensor, TURN, params)
        return
    if params.rows_per_thread > 1:
        split(tensor, TURN, params.rows_per_thread)
    split(tensor, GRID, params.block_y)
    reorder(tensor, {TURN: SIDE, SIDE: TURN})


def _divide_side(tensor: TensorView, position: int, params: RowParams) -> None:
    """From rows to `[turns, block_y, rows of a thread]`."""
    if params.rows_per_thread > 1:
        split(tensor, position, params.rows_per_thread)
    split(tensor, position, params.block_y)


def _divide_columns(
    fusion: Fusion, tensor: TensorView, domains: DomainMap, rows: Rows, params: RowParams
) -> None:
    """From `[R.., K turns, K blocks]` to the loops of every tensor."""
    turns, each = tensor.loop[-2:]
    run = [domains.group(axis) for axis in rows.row]
    tensor.loop = [a for a in tensor.loop if not a.is_broadcast]
    _arrange(tensor, [domains.group(each), domains.group(turns), *run], domains)
    _merge_run(tensor, rows)
    if params.across:
        _divide_across(fusion, tensor, params)
    _divide_turns(tensor, params)
    _divide_row(fusion, tensor, SIDE + 1 + _several(params), rows, params)


def _divide_store(
    fusion: Fusion, tensor: TensorView, domains: DomainMap, rows: Rows, params: RowParams
) -> None:
    """From `[R.., K groups of all blocks]` to `[K grid_x, K block_y, R..]`."""
    run = [domains.group(axis) for axis in rows.row]
    known = set(run)
    tensor.loop = [axis for axis in tensor.loop if not axis.is_broadcast]
    (each,) = [axis for axis in tensor.loop if domains.group(axis) not in known]
    _arrange(tensor, [domains.group(each), *run], domains)
    _merge_run(tensor, rows)
    split(tensor, GRID, params.block_y)
    _divide_row(fusion, tensor, SIDE, rows, params)
    kinds = loops_of(params)
    for position, kind in enumerate((kinds[GRID], kinds[SIDE], *kinds[row_start(params) :])):
        parallelize(tensor, position, kind)


def _merge_run(tensor: TensorView, rows: Rows) -> None:
    end = len(tensor.loop)
    merge_all(tensor, end - (len(rows.run.axes) - rows.run.start), end)


def _divide_row(
    fusion: Fusion, tensor: TensorView, start: int, rows: Rows, params: RowParams
) -> None:
    """The loops of a row, from `start` on: `[cluster, part, unroll, block_x, vector]`.

    Beside sums of columns, threads that have not exactly what a block has of it divide that part,
    as copies do.
    """
    if params.across:
        if params.cluster > 1:
            reorder(tensor, {start: start + 1, start + 1: start})
        split(tensor, -1, params.vector)
        split(tensor, -2, params.block_x)
        return
    if params.row and rows.columns:
        whole = params.cluster * params.row
        extent = map_of(fusion).extent_of(tensor.loop[start])
        known = {(extent, params.uneven or whole)}
        fusion.limits |= known | {(extent, whole)}
        fusion.divisors |= known
        fusion.least |= known
        split(tensor, start, whole)
        inside = divide_cluster(tensor, start, params.row, params.cluster)
        split(tensor, inside, params.vector)
        split(tensor, inside, params.block_x)
        return
    split(tensor, -1, params.vector)
    merge_all(tensor, start, len(tensor.loop) - 1)
    divide_row(
        fusion,
        tensor,
        start,
        params.unroll,
        params.block_x,
        cluster=params.cluster,
        exact=params.exact,
        full=params.full or params.row // (params.vector * params.block_x),
    )
