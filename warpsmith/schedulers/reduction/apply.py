"""Schedule a reduction by its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.exprs import Reduction, takes_moments
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.levels import has_levels
from warpsmith.ir.mapping import map_of
from warpsmith.ir.reads import Read
from warpsmith.ir.scalar import Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.reach import reached
from warpsmith.schedule.caches import rfactor
from warpsmith.schedule.inline import inline_at, inline_most
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.transforms import parallelize, reorder, split
from warpsmith.schedulers.ahead import run_ahead, through_tiles
from warpsmith.schedulers.caching import Cached, vectorize
from warpsmith.schedulers.cover import merge_all, order_loops
from warpsmith.schedulers.reads import reads
from warpsmith.schedulers.reduction.applicability import after_reduction, reductions
from warpsmith.schedulers.reduction.aside import only_after, walks_reduced
from warpsmith.schedulers.reduction.params import ReductionParams
from warpsmith.schedulers.reduction.shape import shape_of

SPLITS = "splits"
"""Name of the launch symbol: blocks that share one result."""


class Role(Enum):
    """What a loop of a reduction is for."""

    grid = "results over blocks"
    splits = "parts of one result over blocks"
    serial = "passes of one thread"
    unroll = "accesses of one pass"
    rows_per_thread = "results of one thread"
    block_x = "threads along the fastest dimension"
    block_y = "threads along the other dimension"
    vector = "elements of one access"


PARALLEL = {
    Role.grid: ParallelType.grid_x,
    Role.splits: ParallelType.grid_y,
    Role.serial: ParallelType.serial,
    Role.unroll: ParallelType.unroll,
    Role.rows_per_thread: ParallelType.unroll,
    Role.block_x: ParallelType.block_x,
    Role.block_y: ParallelType.block_y,
    Role.vector: ParallelType.serial,
}

OUTER = (
    Role.grid,
    Role.splits,
    Role.serial,
    Role.unroll,
    Role.block_y,
    Role.block_x,
    Role.vector,
)
"""The loops of an outer reduction, outermost first."""

SPLITS_FIRST = {**PARALLEL, Role.grid: ParallelType.grid_y, Role.splits: ParallelType.grid_x}


def apply(fusion: Fusion, caches: tuple[Cached, ...], params: ReductionParams) -> None:
    """Loops of the first partial reduction, kept dimensions K and reduced ones R:

    inner: `[K grid_x, K block_y, R grid_y | R serial | R unroll, R block_x, R vector]`
    outer: `[K grid_x, R grid_y | R serial | R unroll, R block_y, K block_x, K vector]`
    exact: the same without `R grid_y`, and one iteration of `R serial`

    A thread reduces its passes in registers that keep the vector's lanes apart; inner reductions
    join the lanes afterwards (Welford's at once, vector by vector). What is left is reduced across
    the block, and across the grid where the launch splits results over blocks.
    """
    domains = map_of(fusion)
    shape = shape_of(fusion, domains, caches)
    order = {domains.group(axis): place for place, axis in enumerate(shape.axes)}
    run = len(shape.run.axes) - shape.run.start
    walked = (shape.run.extent, *shape.run.parts(params.vectorized))
    fusion.divisors |= {(extent, params.vector) for extent in walked}
    count = Symbol(SPLITS, low=1)
    if params.splits:
        fusion.launch_symbols.append(count)
    fusion.blocks_per_sm = params.blocks_per_sm
    partials: list[TensorView] = []
    tiles: list[TensorView] = []
    for tensor in reductions(fusion):
        keeps = order_loops(tensor, domains, order)
        if params.ring:
            fusion.divisors |= {(shape.run.extent, params.block_x * params.vector)}
            _tiled(tensor, keeps, params, count)
            tiles = tiles or _tiles(fusion, caches, tensor)
            roles = _within_tile(tensor, params)
        elif params.exact:
            roles = _whole(fusion, tensor, keeps, run, params)
        else:
            roles = (_inner if params.inner else split_columns)(tensor, keeps, run, params, count)
        partials.append(_factor(tensor, roles, params))
    _spread(fusion, caches, params, partials, tiles)
    keep_reductions_whole(fusion)
    run_ahead(tiles, params.ring)


def _inner(
    tensor: TensorView, keeps: int, run: int, params: ReductionParams, count: Symbol
) -> list[Role]:
    """`[K grid_x, K block_y, R grid_y, R serial, K unroll, R unroll, R block_x, R vector]`.

    Rows that are whole have no `R grid_y`.
    """
    end = len(tensor.loop)
    merge_all(tensor, end - run, end)
    split(tensor, -1, params.vector)
    merge_all(tensor, keeps, len(tensor.loop) - 1)
    split(tensor, keeps, params.block_x)
    split(tensor, keeps, params.unroll)
    passes = [Role.serial]
    if params.splits:
        split_over_blocks(tensor, keeps, count)
        passes = [Role.splits, Role.serial]
    own = [Role.unroll, Role.block_x, Role.vector]
    if not keeps:
        return [*passes, *own]
    merge_all(tensor, 0, keeps)
    split(tensor, 0, params.block_y)
    split(tensor, 0, params.rows_per_thread)
    reorder(tensor, {0: 0, 1: 2 + len(passes), 2: 1})
    return [Role.grid, Role.block_y, *passes, Role.rows_per_thread, *own]


class Block(Protocol):
    """How the threads of a block divide columns."""

    @property
    def vector(self) -> int: ...
    @property
    def unroll(self) -> int: ...
    @property
    def block_x(self) -> int: ...
    @property
    def block_y(self) -> int: ...


def split_columns(
    tensor: TensorView, keeps: int, run: int, params: Block, count: Symbol
) -> list[Role]:
    """`[K grid_x, R grid_y, R serial, R unroll, R block_y, K block_x, K vector]`."""
    merge_all(tensor, keeps, len(tensor.loop))
    split(tensor, keeps, params.block_y)
    split(tensor, keeps, params.unroll)
    split_over_blocks(tensor, keeps, count)
    _divide_columns(tensor, keeps, run, params)
    reorder(tensor, {1: 5, 2: 6})
    return list(OUTER)


def _whole(
    fusion: Fusion, tensor: TensorView, keeps: int, run: int, params: ReductionParams
) -> list[Role]:
    """`[K grid_x, R serial, R unroll, R block_y, K block_x, K vector]`, one serial iteration.

    One of whole steps compares no index with an end, so that it asks whether there is one at all.
    """
    merge_all(tensor, keeps, len(tensor.loop))
    rows = params.unroll * params.block_y
    extent = map_of(fusion).extent_of(tensor.loop[keeps])
    if integers.constant(extent) or not integers.divides(rows, extent, fusion.divisors):
        fusion.limits |= {(extent, rows)}
    split(tensor, keeps, rows)
    split(tensor, keeps + 1, params.block_y)
    _divide_columns(tensor, keeps, run, params)
    reorder(tensor, {1: 4, 2: 5})
    return [role for role in OUTER if role is not Role.splits]


def _divide_columns(tensor: TensorView, keeps: int, run: int, params: Block) -> None:
    """The kept loops in front become `[K grid_x, K block_x, K vector]`."""
    merge_all(tensor, keeps - run, keeps)
    kept = keeps - run + 1
    split(tensor, kept - 1, params.vector)
    merge_all(tensor, 0, kept)
    split(tensor, 0, params.block_x)


def _tiled(tensor: TensorView, keeps: int, params: ReductionParams, count: Symbol) -> None:
    """`[K grid_x, R grid_y, R serial, R rows, K columns]`: what a block loads at a time."""
    merge_all(tensor, keeps, len(tensor.loop))
    split(tensor, keeps, params.unroll * params.block_y)
    split_over_blocks(tensor, keeps, count)
    merge_all(tensor, 0, keeps)
    split(tensor, 0, params.block_x * params.vector)
    reorder(tensor, {1: 4})


def _tiles(fusion: Fusion, caches: tuple[Cached, ...], reference: TensorView) -> list[TensorView]:
    """A tile of each input that is reduced, loaded as the reference's last two loops walk it."""
    after = after_reduction(fusion)
    loads = [c for c in caches if c.load and c.register not in after]
    return [through_tiles(cached, reference, 2, LoadStoreOpType.tma) for cached in loads]


def _within_tile(tensor: TensorView, params: ReductionParams) -> list[Role]:
    """`[.., R unroll, R block_y, K block_x, K vector]`: how threads take a tile apart."""
    split(tensor, 4, params.vector)
    split(tensor, 3, params.block_y)
    return list(OUTER)


def split_over_blocks(tensor: TensorView, position: int, count: Symbol | int) -> None:
    """The passes at `position` become `[blocks, passes of one block]`.

    Blocks that share a result take passes in turn, so that they read adjacent memory at one time:
    up to 4 % faster than contiguous shares (docs/lessons/reductions.md).
    """
    split(tensor, position, count)
    reorder(tensor, {position: position + 1})


def _factor(tensor: TensorView, roles: list[Role], params: ReductionParams) -> TensorView:
    """Bind the loops and factor the reduction twice; returns the first partial result."""
    for position, role in enumerate(roles):
        parallelize(tensor, position, (SPLITS_FIRST if params.splits_first else PARALLEL)[role])
    own = [Role.serial, Role.unroll]
    if params.inner and (takes_moments(tensor.definition) or has_levels(tensor.definition)):
        own.append(Role.vector)
    first = rfactor(tensor, [roles.index(role) for role in own])
    if params.inner and Role.vector not in own:
        left = [role for role in roles if role not in own]
        rfactor(tensor, [left.index(Role.vector)])
    return first[0]


def _spread(
    fusion: Fusion,
    caches: tuple[Cached, ...],
    params: ReductionParams,
    partials: list[TensorView],
    tiles: list[TensorView],
) -> None:
    """Give the other tensors the loops of the first partial reduction, and inline everything.

    Tiles have their own already.
    """
    reference = partials[0]
    results = {out for op in fusion.operations if isinstance(op, Reduction) for out in op.outputs}
    apart = {*results, *tiles}
    others = [t for t in fusion.computed if t not in apart]
    after = after_reduction(fusion)
    aside = only_after(fusion, map_of(fusion), after)
    if others:
        transform_like(reference, [t for t in others if t not in aside])
        if aside:
            epilogue = next(t for t in others if t in after)
            transform_like(epilogue, aside)
        parallelize_like(reference, selected_tensors=others)
    for tile in tiles:
        for position in (0, 1):
            parallelize(tile, position, PARALLEL[OUTER[position]])
    vectorize(caches, params.vectorized)
    serial = next(p for p, axis in enumerate(reference.loop) if axis.is_reduction)
    copied = [c.register for c in caches if c.load and c.register not in after]
    taken = [read for read in reads(fusion) if read.output not in after]
    loads = [*copied, *(read.output for read in taken), *_shared_places(fusion, taken)]
    inline_most(fusion, fusion.computed)
    if any(takes_moments(t.definition) for t in partials):
        keep_vectors_apart(reference, [t for t in others if t not in after])
    if tiles or not loads:
        return
    walks = walks_reduced(fusion, map_of(fusion))
    for register in loads:
        register.streaming = register in walks and register in copied
        position = serial + 1 if register in walks else serial
        inline_at(reference, position, best_effort=True, selected_tensors=(register,))


def _shared_places(fusion: Fusion, taken: Sequence[Read]) -> list[TensorView]:
    """What tells reads their places, and others something: it comes as early as these, which do not
    wait for the others.
    """
    ahead = {*reached((index for read in taken for index in read.indices), fusion.producers)}
    own = {*ahead, *(read.output for read in taken)}
    return [
        tensor
        for tensor in fusion.computed
        if tensor in ahead and any(own.isdisjoint(use.outputs) for use in fusion.uses(tensor))
    ]


def keep_reductions_whole(fusion: Fusion) -> None:
    """Reduce across threads outside every loop: once, with all of a thread's results together."""
    for operation in fusion.operations:
        if not isinstance(operation, Reduction):
            continue
        loop = operation.outputs[0].loop
        if not any(axis.is_reduction and axis.parallel.is_thread for axis in loop):
            continue
        outer = 0
        while outer < len(loop) and loop[outer].parallel.is_thread:
            outer += 1
        for source in operation.inputs:
            if isinstance(source, TensorView):
                source.compute_at = min(source.compute_at, outer)


def keep_vectors_apart(reference: TensorView, before: list[TensorView]) -> None:
    """Compute whole vectors before a Welford step, which takes all lanes under one count."""
    for tensor in before:
        position = min(tensor.compute_at, len(reference.loop) - 1)
        tensor.compute_at = position
