"""Schedule a pointwise fusion by its parameters."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import IterDomain, MemoryType, ParallelType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import map_of
from warpsmith.ir.program import Program
from warpsmith.ir.scalar import Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import cache_after
from warpsmith.schedule.inline import inline_at, inline_most
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.transforms import (
    merge,
    pad_allocation,
    parallelize,
    reorder,
    set_allocation_domain,
    set_memory_type,
    split,
)
from warpsmith.schedulers.ahead import run_ahead, through_tiles
from warpsmith.schedulers.caching import Cached, vectorize
from warpsmith.schedulers.cover import merge_all
from warpsmith.schedulers.layout import InnerRun
from warpsmith.schedulers.pointwise.applicability import reference
from warpsmith.schedulers.pointwise.heuristic import (
    PointwiseParams,
    inner_run,
    row_of,
)
from warpsmith.schedulers.pointwise.repeated import divide, first_of_rows, of_all_rows
from warpsmith.schedulers.pointwise.transposed import TILE, Transposed, columns_of, loop_axes
from warpsmith.values import dataclass

BLOCKS = "blocks"
"""Name of the launch symbol: persistent blocks."""


def apply(fusion: Fusion, caches: tuple[Cached, ...], params: PointwiseParams) -> None:
    """Lay the schedule; see `_flat` and `_tiled` for the loops."""
    lay(fusion, fusion, caches, params)


def lay(
    fusion: Fusion, program: Program, caches: tuple[Cached, ...], params: PointwiseParams
) -> None:
    """Lay the schedule of a program that is all of a fusion, or apart from the rest of it."""
    fusion.last_first = params.last_first
    domains = map_of(fusion)
    output = reference(program, domains)
    assert output is not None
    order = output.concrete_order()
    output.loop = [axis for axis in output.loop if not axis.is_broadcast]
    if not order:
        return  # one element: one thread computes it without loops
    reorder(output, {sorted(order).index(dimension): n for n, dimension in enumerate(order)})
    apart = params.transposed is not None and params.transposed.apart
    for place, parts in reversed([*enumerate(loop_axes(output, domains, caches, apart=apart))]):
        for part in reversed(parts[1:]):
            split(output, place, domains.extent_of(part))
    run = inner_run(program, domains, caches, across=params.across, apart=apart)
    if params.transposed is None:
        _flat(fusion, output, caches, params, run, program.computed)
    else:
        _tiled(fusion, output, caches, params, run, params.transposed)


def _flat(
    fusion: Fusion,
    output: TensorView,
    caches: tuple[Cached, ...],
    params: PointwiseParams,
    run: InnerRun,
    own: Sequence[TensorView],
) -> None:
    """Loops `[grid_x, unroll, block_x, vector]` over the output's elements in memory order; or
    `[grid_x, unroll, block_y, block_x, vector]` over rows and the columns that they share.
    """
    if params.exact:
        fusion.divisors |= {(run.extent, params.vector)}
    fusion.divisors |= {(part, params.vector) for part in run.parts(params.vectorized)}
    rows = {row_of(map_of(fusion), c, run) for c in caches if c.name in params.of_rows}
    fusion.least |= {(row, params.vector) for row in rows}
    early = {cached.register for cached in caches if cached.load}
    if params.width:
        domains = map_of(fusion)
        first = first_of_rows(domains, caches, run)
        early |= of_all_rows(fusion, domains, run, first)
        sizes = {"vector": params.vector, "width": params.width, "rows": params.unroll}
        divide(output, run, first, **sizes)
        _bind(output, ParallelType.block_y, ParallelType.block_x)
    else:
        merge_all(output, run.start, len(output.loop))
        if params.ring:
            _by_tiles(fusion, output, caches, params, run)
            return
        split(output, run.start, params.vector)
        merge_all(output, 0, len(output.loop) - 1)
        split(output, 0, params.threads)
        split(output, 0, params.unroll)
        _bind(output)
    transform_like(output, own)
    parallelize_like(output, selected_tensors=own)
    vectorize(caches, (*params.vectorized, *params.around))
    for cached in caches:
        cached.register.around = cached.name in params.around
    for cached in run.walkers:
        once = sum(not a.is_broadcast for a in cached.memory.shape_axes) == len(run.axes)
        cached.register.streaming = params.streaming and cached.load and once
    _inline(fusion, output, early, own)


def _by_tiles(
    fusion: Fusion,
    output: TensorView,
    caches: tuple[Cached, ...],
    params: PointwiseParams,
    run: InnerRun,
) -> None:
    """Loops `[grid_x, serial, unroll, block_x, vector]`, without the serial one for one stage.

    The TMA unit loads the tiles of those inputs that walk the output as it lies in memory.
    """
    split(output, 0, params.threads * params.vector * params.unroll)
    if params.ring > 1:
        count = Symbol(BLOCKS, low=1)
        fusion.launch_symbols.append(count)
        split(output, 0, count)
        reorder(output, {0: 1})
    inside = len(output.loop) - 1
    parallelize(output, 0, ParallelType.grid_x)
    walking = [c for c in caches if c.load and c in run.walkers]
    tiles = [through_tiles(c, output, 1, LoadStoreOpType.bulk) for c in walking]
    for tile in tiles:
        parallelize(tile, 0, ParallelType.grid_x)
    split(output, inside, params.vector)
    split(output, inside, params.threads)
    parallelize(output, inside, ParallelType.unroll)
    parallelize(output, inside + 1, ParallelType.block_x)
    apart = {*tiles, *fusion.input_tensors, output}
    others = [t for t in fusion.tensors if t not in apart]
    transform_like(output, others)
    parallelize_like(output, selected_tensors=others)
    vectorize(caches, params.vectorized)
    inline_most(fusion, [t for t in fusion.tensors if t not in fusion.input_tensors])
    if params.ring > 1:
        run_ahead(tiles, params.ring)


@dataclass(frozen=True, slots=True)
class _Tile:
    """Axes of one block's tile: the block, and the tile's rows (slow) and columns (fast)."""

    block: IterDomain
    rows: IterDomain
    columns: IterDomain


def _tiled(
    fusion: Fusion,
    output: TensorView,
    caches: tuple[Cached, ...],
    params: PointwiseParams,
    run: InnerRun,
    transposed: Transposed,
) -> None:
    """Square tiles of the output's fastest dimensions and the transposed inputs' fastest ones.

    A transposed input is read along its own fastest dimension, put into shared memory, and read
    back along the output's. Loops `[grid_x, passes, block_x, vector]` over the tile, rows of the
    output first for the output and columns first for the input.
    """
    domains, rows = map_of(fusion), run.axes[transposed.first : transposed.dimension + 1]
    walked = integers.mul(*map(domains.extent_of, rows))
    columns = columns_of(domains, run, transposed)
    fusion.divisors |= {(columns.extent, params.vector), (walked, transposed.vector)}
    merge_all(output, transposed.columns, len(output.loop))
    merge_all(output, transposed.first, transposed.dimension + 1)
    reorder(output, {transposed.first: len(output.loop) - 2})
    split(output, -1, TILE)
    split(output, -3, TILE)
    reorder(output, {-2: -3})
    merge_all(output, 0, len(output.loop) - 2)
    tile = _Tile(*output.loop)
    split(output, -1, params.vector)
    merge(output, 1)
    split(output, 1, params.threads)
    _bind(output)
    transform_like(output)
    parallelize_like(output)
    vectorize(caches, params.vectorized)
    staged = [c for c in caches if c.name in transposed.names]
    shared = [_stage(cached.register, tile, transposed, params.threads) for cached in staged]
    for cached in staged:
        if transposed.vector > 1:
            parallelize(cached.register, -1, ParallelType.vectorize)
    loads = [c.register for c in caches if c.load]
    _inline(fusion, output, {*loads, *shared}, fusion.computed)


def _stage(register: TensorView, tile: _Tile, transposed: Transposed, threads: int) -> TensorView:
    """Send a loaded input through shared memory: `register` loads, the result holds the tile."""
    shared = cache_after(register)
    set_memory_type(shared, MemoryType.shared)
    rows, columns = tile.rows.clone(), tile.columns.clone()
    shared.loop = [tile.block.clone(), columns, rows]
    split(shared, -1, transposed.vector)
    merge(shared, 1)
    split(shared, 1, threads)
    _bind(shared)
    set_allocation_domain(shared, (columns, rows))
    pad_allocation(shared, max(1, 4 // shared.dtype.size))
    transform_like(shared, [register])
    parallelize_like(shared, selected_tensors=[register])
    return shared


def _bind(tensor: TensorView, *threads: ParallelType) -> None:
    """`[grid_x, unroll, threads, vector]`; the vector is bound on the copies only."""
    kinds = ParallelType.grid_x, ParallelType.unroll, *(threads or (ParallelType.block_x,))
    for position, kind in enumerate(kinds):
        parallelize(tensor, position, kind)


def _inline(
    fusion: Fusion, output: TensorView, early: set[TensorView], own: Sequence[TensorView]
) -> None:
    """Everything goes as deep as it can, but `early` tensors are whole before the first use."""
    inline_most(fusion, [t for t in own if t not in early])
    if early:
        inline_at(output, 1, best_effort=True, selected_tensors=list(early))
