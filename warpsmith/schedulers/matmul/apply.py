"""Schedule a matrix product by its parameters."""

from __future__ import annotations

from math import prod

from warpsmith.ir.atoms import atom_for
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.exprs import Matmul
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import map_of
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import rfactor
from warpsmith.schedule.carriers import set_load_store_op
from warpsmith.schedule.inline import inline_at
from warpsmith.schedule.products import tensorize
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.rings import circular_buffer
from warpsmith.schedule.roles import LOAD, order_groups
from warpsmith.schedule.tile_order import TileOrder, order_tiles
from warpsmith.schedule.transforms import (
    merge,
    parallelize,
    reorder,
    set_memory_type,
    set_swizzle,
    split,
    split_by_group,
)
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.matmul.epilogue import Epilogue, bind_groups
from warpsmith.schedulers.matmul.heuristic import products_of
from warpsmith.schedulers.matmul.joins import Join, own_steps, share_out, shared
from warpsmith.schedulers.matmul.params import OPERANDS, MatmulParams
from warpsmith.schedulers.matmul.partials import Begun
from warpsmith.schedulers.matmul.prologues import Held
from warpsmith.schedulers.matmul.room import piece_of
from warpsmith.schedulers.matmul.scales import Scales
from warpsmith.schedulers.matmul.shape import Shape, is_turned, places_of, shape_of, swap_operands
from warpsmith.targets.atoms import WGMMA

SWIZZLE = 128


def apply(fusion: Fusion, caches: tuple[Cached, ...], params: MatmulParams) -> None:
    """Two roles, each with loops of its own over the tiles of a block.

    ========== ========================================================================
    operands   `[turn, grid_x, k tile | rows, k]`, boxes of the TMA unit, role `load`; of lines
               longer than a swizzle `[turn, grid_x, k tile, piece | rows, k of a piece]`, and of
               one that lies along m or n `[turn, grid_x, k tile, piece | k, rows of a piece]`
    product    `[turn, grid_x, k tile, group, k step | 64, columns, 16]`
    epilogue   `[turn, grid_x, chunk, group, thread, columns / 8, 2, 2]`
    staged     `[turn, grid_x, chunk, group, thread, columns / 16 | 2, 2, 2]`, by stmatrix
    output     `[turn, grid_x, chunk | rows, columns]`, boxes of the TMA unit; where operands are
               swapped, `[turn, grid_x, chunk, piece | columns, 64 rows]`
    ========== ========================================================================

    Where scales differ along k (`blocks.by_blocks`), the loop over tiles of k is two: over those
    whose scales come at once (`scales.py`), and over each. The product is inside both of what
    threads carry, `[turn, grid_x, k tiles, k tile, group, thread, columns / 8, 2, 2]`.

    Where blocks of a cluster have a box of tiles, cluster_x stands behind grid_x, and numbers of
    loops below count one more (`MatmulParams.outer`). Where they have parts of k of one tile, it
    stands there for operands and products along k, and for what is computed from the sums along
    columns: what each has summed is reduced, and each keeps a share. Where blocks of the grid have
    parts of k, there are no turns, and grid_y stands behind grid_x for operands and products. Where
    groups take turns, their loop stands behind these, and that over 64 rows is serial.

    A group is a warp group, along block_y; its threads lie along block_x. Where results are not
    staged, outputs have the loops of the epilogue, without the chunk. Batches are a part of `turn`.
    """
    begun = Begun.of(fusion, caches, params)
    product, *others = products_of(fusion)
    shape = shape_of(product)
    if params.swapped:
        shape, product = shape.swapped, swap_operands(fusion, product)
    products = [product, *others]
    if params.shares:
        fusion.bring_first(products)  # what is used behind them comes through the same stages
    held = Held.of(fusion, product, params)
    first = held.tiles if held else {product.a: 1}
    tiles = {tile: (0, is_turned(product, 0), packed) for tile, packed in first.items()}
    tiles.update({each.b: (1, is_turned(each, 1), 1) for each in products})
    apart = begun.tensors
    reference = next(c.memory for c in caches if not (c.load or c.memory in apart))
    epilogue = Epilogue.of(products, shape, caches, begun, params)
    scales = Scales.of(fusion, product, params)
    for tile in tiles:
        set_memory_type(tile, MemoryType.shared)
        set_load_store_op(tile, LoadStoreOpType.tma)
    _in_order(reference, product, shape)
    _tiles(reference, params, by_group=product.ends is not None)
    whole = [tensor for tensor in fusion.computed if tensor not in apart] if apart else []
    transform_like(reference, whole)
    parallelize_like(reference, selected_tensors=whole)
    sums = [each.output for each in products] if scales is None else [scales.blocks.sums]
    inside = () if scales is None else (product.output, *scales.inside)
    before = {*tiles, *(held.tensors if held else ()), *apart}
    beside = [t for t in fusion.computed if t not in {*sums, *inside, *before}]
    for tile, (which, turned, packed) in tiles.items():
        _load(tile, params, which, turned=turned, packed=packed)
    parts = [_multiply(each, params) for each in products]
    scales = scales and scales.parted(params)
    own = [scales.blocks.sums] if scales else parts
    joins = [Join.of(*each, params) for each in zip(sums, own, strict=True)]
    for tensor in beside:
        share_out(tensor, params.outer, params)
    epilogue.lay_on(beside, sums)
    if others:  # in one loop over k
        inline_at(product.output, params.outer + 1, selected_tensors=[product.a])
    if scales is not None:
        scales.lay(parts[0], params)
    for join in joins:
        join.lay(params)
        if params.ping_pong > 1:
            order_groups(join.sums, "main")
    if held:
        held.lay(parts[0], _tiles_of_k(held.operand, params), turned=is_turned(product, 0))


def _in_order(output: TensorView, product: Matmul, shape: Shape) -> None:
    """Loops `[batch, rows, columns]`, or `[rows, columns]` without batches."""
    places = places_of(map_of(Fusion.of(output)), product, output)
    inside = (*shape.rows, *shape.columns)
    walked = {place: at for at, place in enumerate((None, *shape.batches, *inside))}
    order = sorted(range(len(places)), key=lambda dimension: walked[places[dimension]])
    reorder(output, {dimension: position for position, dimension in enumerate(order)})
    outside = len(order) - len(inside)
    for first, dimensions in ((outside + len(shape.rows), shape.columns), (outside, shape.rows)):
        for _ in dimensions[1:]:
            merge(output, first)
    for _ in range(outside - 1):
        merge(output, 0)


def _tiles(output: TensorView, params: MatmulParams, *, by_group: bool) -> None:
    """Loops `[turn, grid_x, rows, columns]`: a block loops over the tiles of the output.

    With clusters `[turn, grid_x, cluster_x, rows, columns]`: a cluster loops over boxes of tiles.
    Where groups take turns, their loop stands behind these: of tiles one after the other, each
    block has one, and then each has one for its next group.
    """
    rows, columns, _ = params.tile
    down, across = params.cluster
    split(output, -1, columns)
    if by_group:  # blocks of a cluster have rows of one group
        split_by_group(output, -3, rows * down)
    else:
        split(output, -3, rows)
    clustered = down * across > 1
    if clustered:
        split(output, -2, across)
        if by_group:
            split(output, -4, rows)
        else:
            split(output, -5, down)  # tiles, of a cluster, rows, tiles, of one, columns
        reorder(output, {-3: -5, -2: -3})
        merge(output, -4)  # tiles, tiles, of a cluster, rows, columns
    else:
        reorder(output, {-3: -2})
    inside = 2 + clustered
    if by_group:  # parts without rows are the last ones: among others some blocks would have more
        order_tiles(output, -inside - 2, TileOrder("columns", params.group))
    elif params.ping_pong or params.stream:
        order_tiles(output, -inside - 2, TileOrder("rows", params.group))
    else:
        split(output, -inside - 2, params.group)
        reorder(output, {-inside - 1: -inside - 2})  # of groups, tiles, tiles of a group
    while len(output.loop) > inside + 1:
        merge(output, 0)
    block = int(params.turns)
    if block:
        split(output, 0, params.blocks // (prod(params.cluster) * params.splits))
    if params.ping_pong:
        split(output, 0, params.ping_pong)
        reorder(output, {1: params.outer - 1})
    parallelize(output, block, ParallelType.grid_x)
    if params.stream:
        parallelize(output, 0, ParallelType.stream_k)
    if clustered:
        parallelize(output, block + 1, ParallelType.cluster_x)


def _load(
    operand: TensorView, params: MatmulParams, which: int, *, turned: bool, packed: int
) -> None:
    """The ring of tiles of operand 0 or 1; a piece of one is as wide as a swizzle's rows, or as the
    tile. Of each element so many elements of the operand are computed.
    """
    at = _tiles_of_k(operand, params, packed)
    reorder(operand, {at + 2: at})  # turn, grid, k tile, rows of a, rows of b, k
    if which == 0:
        reorder(operand, {at + 2: at + 1})  # the loop that the operand lacks stands outside
    along, edge = at + 2 if turned else at + 3, params.tile[which if turned else 2] // packed
    tile, width = (at + 1, at + 2, at + 3), piece_of(edge, operand.dtype.size)
    if turned or width < edge:
        split(operand, along, width)
        reorder(
            operand, {at + 3: at + 4 if turned else at + 2}
        )  # piece, k and rows, or the reverse
        tile = (at + 1, at + 3, at + 4)
    set_swizzle(operand, width * operand.dtype.size)
    operand.evict_first = params.once_read[which]
    for axis in tile:
        parallelize(operand, axis, ParallelType.tma)
    if params.scaled:
        at = own_steps(operand, at, params)
    ring = OPERANDS if params.shares else ""
    circular_buffer(operand, params.stages, role=LOAD, ring=ring, stage_slice_position=at + 1)


def _tiles_of_k(tensor: TensorView, params: MatmulParams, packed: int = 1) -> int:
    """Loops `[turn, grid, cluster_x, rows, columns, k tile, k]`; how many stand before rows."""
    at = params.outer
    split(tensor, at + 2, params.tile[2] // packed)
    for count, kind in shared(params):
        split(tensor, at + 2, count)
        parallelize(tensor, at + 3, kind)
        reorder(tensor, {at + 3: at})
        at += 1
    if params.stream and not params.scaled:
        split(tensor, at + 2, 1, inner_split=False)
        parallelize(tensor, at + 2, ParallelType.part)
        reorder(tensor, {at + 2: at})
        at += 1
    return at


def _multiply(product: Matmul, params: MatmulParams) -> TensorView:
    """What tensor cores sum: the product, or each block's part of it."""
    atom, parts = atom_for(product, WGMMA), product.output
    assert atom is not None, f"`can` admitted {parts.name}, which no atom computes"
    of_block = parts.root is not parts.logical
    at = params.outer if of_block else _tiles_of_k(parts, params)
    if params.in_parts and not of_block:
        (parts,) = rfactor(parts, [at + 2, at + 3])
    width = SWIZZLE // atom.size
    steps = (width, atom.depth) if params.tile[2] > width else (atom.depth,)
    for number, step in enumerate(steps):
        split(parts, at + 3 + number, step)
    split(parts, at, atom.rows)  # turn, grid, 64 of rows, 64, columns, k tile, k steps, k
    own = int(params.ping_pong == 0)
    inner = {at + 4 + number: at + 1 + own + number for number in range(len(steps))}
    reorder(parts, {at + 3: at, **inner})
    bind_groups(parts, at + own, params)
    if params.passes > 1 and not of_block:  # each step of k in all passes
        reorder(parts, {at + own: at + own + 1 + len(steps)})
    if of_block:
        own_steps(parts, at, params)
    tensorize(parts)
    return parts
