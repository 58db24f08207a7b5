"""Schedule a matrix product that threads multiply by its parameters."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain, IterType, MemoryType, ParallelType
from warpsmith.ir.exprs import Matmul, Pointwise, replace_tensor
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import map_of
from warpsmith.ir.tensor import TensorView
from warpsmith.layouts.banks import clocks
from warpsmith.layouts.fragments import left
from warpsmith.layouts.layout import Layout
from warpsmith.layouts.matrices import WORD, whole_rows
from warpsmith.layouts.memory import MemoryLayout
from warpsmith.schedule.caches import cache_after
from warpsmith.schedule.carriers import set_load_store_op
from warpsmith.schedule.inline import inline_at, inline_most
from warpsmith.schedule.products import split_fragments, split_operand, tensorize
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.rings import circular_buffer
from warpsmith.schedule.transforms import (
    pad_allocation,
    parallelize,
    reorder,
    set_allocation_domain,
    set_memory_type,
    set_swizzle,
    split,
)
from warpsmith.schedulers.caching import Cached, vectorize
from warpsmith.schedulers.matmul.heuristic import product_of
from warpsmith.schedulers.matmul.shape import swap_operands
from warpsmith.schedulers.matmul_by_threads.heuristic import MatmulByThreadsParams, Shape, shape_of
from warpsmith.schedulers.matmul_by_threads.loops import Laid, lay, merged
from warpsmith.schedulers.matmul_by_threads.sides import computed_for
from warpsmith.schedulers.matmul_by_threads.tiles import VECTOR_BYTES, Reads, Tile, WarpTile
from warpsmith.schedulers.traffic import SECTOR
from warpsmith.targets.family import WARP


def apply(fusion: Fusion, caches: tuple[Cached, ...], params: MatmulByThreadsParams) -> None:
    """A block loops over the tiles of both operands along the summed dimension:

    ========= ==================================================================================
    product   `[grid_x, grid_y, k tile, block_y, block_x, block_z, k | rows, vector | columns,
              vector]`
    operands  `[grid_x, grid_y, k tile | passes, block_z, block_y, block_x, vector]`: into shared
              memory, and what they are computed from
    read back `[grid_x, grid_y, k tile, block_y, block_x, block_z, k | rows or columns, vector]`
    others    `[grid_x, (grid_y,) block_y, block_x, (block_z,) rows, vector, columns, vector]`
    ========= ==================================================================================

    Blocks along y share a result, and so do threads along z: what each has summed is reduced over
    them. Both axes, and dimensions that the product has once by definition, are left out where
    there are none. Tiles are 0 past the ends of the operands (`lower/fills.py`).
    """
    product, swapped = product_of(fusion), params.swapped
    by_warps = isinstance(params.tile, WarpTile)
    fusion.blocks_per_sm = params.tile.blocks_per_sm
    if by_warps and swapped:  # tensor cores take the rows from the first operand
        product, swapped = swap_operands(fusion, product), False
    shape = shape_of(product, swapped=swapped)
    _promise(fusion, shape, params)
    operands = (product.b, product.a) if swapped else (product.a, product.b)
    leading = [computed_for(fusion, operand) for operand in operands]
    apart = {product.output, *leading[0], *leading[1]}
    rest = [tensor for tensor in fusion.computed if tensor not in apart]
    laid = lay(product.output, shape, params)
    sums = laid.sums
    tiles = [
        operand if reads.ahead else _shared(operand, sums, convert=not by_warps)
        for operand, reads in zip(operands, params.reads, strict=True)
    ]
    for tile, before, reads, own in zip(
        tiles, leading, params.reads, (laid.rows, laid.columns), strict=True
    ):
        if reads.ahead:
            set_memory_type(tile, MemoryType.shared)
            set_load_store_op(tile, reads.carrier)
        _load(tile, laid, own, reads, params.tile)
        if reads.ahead:
            continue
        sources = list({**before, **dict.fromkeys(fusion.producers(tile))})
        transform_like(tile, sources)
        parallelize_like(tile, selected_tensors=sources)
    read = [cache_after(tile, cached_uses=[sums]) for tile in tiles]
    transform_like(sums, [*read, *rest])
    parallelize_like(sums, selected_tensors=[*read, *rest])
    for side, copy in enumerate(read):
        _read_back(copy, laid, side, params)
    if by_warps:
        _deal_out(laid, read, [*rest, product.output])
    vectorize(caches, params.vectorized)
    loads = [c.register for c in caches if c.load and c.register in apart]
    early = {*loads, *read}
    inline_most(fusion, [tensor for tensor in fusion.computed if tensor not in early])
    inline_at(tiles[0], len(laid.outer), best_effort=True, selected_tensors=loads)
    for copy, inside in zip(read, laid.inside, strict=True):
        inline_at(sums, inside, best_effort=True, selected_tensors=[copy])
    for tile, reads in zip(tiles, params.reads, strict=True):
        if reads.ahead:
            _run_ahead(tile, reads, params.tile.stages)
    for register in loads if params.tile.pairs > 1 else ():
        if register.memory is MemoryType.local and _turns(register, laid):
            circular_buffer(register, 2)


def _read_back(copy: TensorView, laid: Laid, side: int, params: MatmulByThreadsParams) -> None:
    """A vector of the copy of a tile in registers lies as the tile does, and is read at once."""
    mine, others = laid.places[side], laid.places[1 - side]
    last = laid.steps if params.reads[side].lines else mine[-1] if mine else None
    vector = integers.ONE if last is None else laid.sums.loop[last].extent
    kept = [place for place in range(len(copy.loop)) if place not in {*others, last}]
    copy.loop = [copy.loop[place] for place in (*kept, *([] if last is None else [last]))]
    if integers.constant(vector) != 1 and not isinstance(params.tile, WarpTile):
        parallelize(copy, -1, ParallelType.vectorize)


def _run_ahead(tile: TensorView, reads: Reads, stages: int) -> None:
    """Stages of a tile. Who asks the TMA unit waits for all readers of one, so not of the last."""
    circular_buffer(tile, stages, max(1, stages - 1 - reads.carrier.is_tma))


def _turns(register: TensorView, laid: Laid) -> bool:
    """Whether what is loaded for an operand is another for each tile along the summed dimension."""
    place = len(laid.outer) - 1
    return register.compute_at > place and not register.loop[place].is_broadcast


def _deal_out(laid: Laid, read: Sequence[TensorView], results: Sequence[TensorView]) -> None:
    """Have the threads of a warp hold operands and results as tensor cores do, and multiply."""
    depth = laid.places[0][0] - 1
    for tensor in (laid.sums, *read):
        reorder(tensor, {depth: -1})
    tensorize(laid.sums)
    for tensor in read:
        split_operand(tensor)
        parallelize(tensor, depth + 1, ParallelType.block_x)
    for tensor in results:
        if tensor is not laid.sums:
            place = len(tensor.loop) - 2
            split_fragments(tensor)
            parallelize(tensor, place, ParallelType.block_x)


def _promise(fusion: Fusion, shape: Shape, params: MatmulByThreadsParams) -> None:
    """Facts that keep vectors whole: they divide the dimensions that they lie along."""
    domains = map_of(fusion)
    sides = zip(params.reads, (shape.rows, shape.columns), strict=True)
    facts = [(shape.summed if r.inward else axes[-1], r.vector) for r, axes in sides]
    names = {output.value.name for output in fusion.outputs}
    if shape.columns and names & set(params.vectorized):
        product, tile = product_of(fusion), params.tile
        facts.append((shape.columns[-1], tile.adjacent(product.output.dtype.size)))
    fusion.divisors |= {(domains.extent_of(axis), width) for axis, width in facts if width > 1}


def _shared(operand: TensorView, sums: TensorView, *, convert: bool) -> TensorView:
    """A copy of an operand in shared memory, in the type of the sums where threads multiply."""
    fusion = Fusion.of(operand)
    wide = operand
    if convert and operand.dtype is not sums.dtype:
        wide = fusion.tensor(sums.dtype, tuple(axis.clone() for axis in operand.shape_axes))
        product = sums.definition
        assert isinstance(product, Matmul)
        fusion.insert_before(product, Pointwise("cast", (operand,), wide))
        fusion.replace(product, replace_tensor(product, operand, wide))
    tile = cache_after(wide, cached_uses=[sums])
    set_memory_type(tile, MemoryType.shared)
    return tile


def _load(tile: TensorView, laid: Laid, own: IterDomain | None, reads: Reads, shape: Tile) -> None:
    """Loops of the threads that fill a tile, which lies in memory as they read it back."""
    outer = [axis.clone(IterType.iteration) for axis in laid.outer]
    if reads.carrier.is_tma:
        _load_boxes(tile, laid, own, reads, shape.depth, outer)
        return
    axes = [axis.clone(IterType.iteration) for axis in (laid.depth, own) if axis is not None]
    along_k = isinstance(shape, WarpTile) and (reads.inward or tile.dtype.size != 2)
    lines = axes[:: -1 if along_k else 1]
    set_allocation_domain(tile, tuple(axis.clone() for axis in lines))
    pad_allocation(tile, _padding(tile.dtype.size, shape))
    tile.loop = [*outer, *(reversed(axes) if reads.inward else axes)]
    if reads.ahead and reads.inward and own is not None:
        _deal_columns(tile, len(outer))
    split(tile, -1, reads.vector)
    merged(tile, tile.loop[len(outer) : -1])
    for threads in shape.threads:
        split(tile, len(outer), threads)
    for place, axis in enumerate(laid.outer):
        parallelize(tile, place, axis.parallel)
    kinds = (ParallelType.unroll, ParallelType.block_z, ParallelType.block_y, ParallelType.block_x)
    for place, kind in enumerate(kinds, len(outer)):
        parallelize(tile, place, kind)
    straight = along_k if reads.inward else not along_k
    if isinstance(shape, WarpTile) and straight and reads.vector > 1:
        parallelize(tile, -1, ParallelType.vectorize)


def _load_boxes(
    tile: TensorView,
    laid: Laid,
    own: IterDomain | None,
    reads: Reads,
    depth: int,
    outer: list[IterDomain],
) -> None:
    """`[grid_x, grid_y, k tile | rows, k]`, or `[.. | k, rows]`: one copy of the TMA unit."""
    assert own is not None
    axes = [axis.clone(IterType.iteration) for axis in (own, laid.depth)]
    tile.loop = [*outer, *(axes if reads.inward else axes[::-1])]
    for place, axis in enumerate(laid.outer):
        parallelize(tile, place, axis.parallel)
    for place in (-2, -1):
        parallelize(tile, place, ParallelType.tma)
    if reads.inward:
        set_swizzle(tile, depth * tile.dtype.size)


def _deal_columns(tile: TensorView, place: int) -> None:
    """Have a warp read a sector each of some lines: `[rows, k]` becomes `[k / 8, rows / 4, 4, 8]`.
    Four lines of words meet no bank twice, since lines of the tile are padded.
    """
    adjacent = SECTOR // tile.dtype.size
    split(tile, place + 1, adjacent)
    split(tile, place, WARP // adjacent)
    reorder(tile, {place + 2: place})


def _padding(size: int, tile: Tile) -> int:
    """Elements behind each line of a tile in shared memory: a vector, or as many with which warps
    that read their parts of eight lines meet the fewest banks.
    """
    if not isinstance(tile, WarpTile):
        return VECTOR_BYTES // size
    held = whole_rows(VECTOR_BYTES // size, size) if size <= WORD else left(8, tile.atom[2], size)

    def taken(padding: int) -> int:
        lines = Layout.strided(held.shape, (tile.depth + padding, 1))
        return clocks(held, MemoryLayout(lines, size))

    return min((VECTOR_BYTES // size, 2 * VECTOR_BYTES // size), key=taken)
