"""Schedule a matrix product that threads multiply by its parameters."""

from __future__ import annotations

from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain, IterType, MemoryType, ParallelType
from warpsmith.ir.exprs import Matmul, Pointwise
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import cache_after
from warpsmith.schedule.inline import inline_at, inline_most
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.transforms import (
    pad_allocation,
    parallelize,
    set_allocation_domain,
    set_memory_type,
    split,
)
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.matmul.heuristic import product_of
from warpsmith.schedulers.matmul_by_threads.heuristic import (
    VECTOR_BYTES,
    MatmulByThreadsParams,
    Reads,
    Shape,
    Tile,
    adjacent,
    shape_of,
)
from warpsmith.schedulers.matmul_by_threads.loops import Laid, lay, merged
from warpsmith.schedulers.matmul_by_threads.sides import computed_for


def apply(fusion: Fusion, caches: tuple[Cached, ...], params: MatmulByThreadsParams) -> None:
    """A block goes round the tiles of both operands along the summed dimension:

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
    product = product_of(fusion)
    shape = shape_of(product, swapped=params.swapped)
    _promise(fusion, shape, params)
    operands = (product.b, product.a) if params.swapped else (product.a, product.b)
    leading = [computed_for(fusion, operand) for operand in operands]
    apart = {product.output, *leading[0], *leading[1]}
    rest = [tensor for tensor in fusion.computed if tensor not in apart]
    laid = lay(product.output, shape, params)
    sums = laid.sums
    tiles = [_shared(operand, sums) for operand in operands]
    for tile, side, reads, own in zip(
        tiles, leading, params.reads, (laid.rows, laid.columns), strict=True
    ):
        _load(tile, laid, own, reads, params.tile)
        sources = list({**side, **dict.fromkeys(fusion.producers(tile))})
        transform_like(tile, sources)
        parallelize_like(tile, selected_tensors=sources)
    read = [cache_after(tile, [sums]) for tile in tiles]
    transform_like(sums, [*read, *rest])
    parallelize_like(sums, selected_tensors=[*read, *rest])
    for copy, mine, others in zip(read, laid.places, reversed(laid.places), strict=True):
        vector = sums.loop[mine[-1]].extent if mine else integers.ONE
        copy.loop = [axis for place, axis in enumerate(copy.loop) if place not in others]
        if integers.constant(vector) != 1:
            parallelize(copy, -1, ParallelType.vectorize)
    for cached in caches:
        if cached.name in params.vectorized:
            parallelize(cached.copy, -1, ParallelType.vectorize)
    loads = [c.register for c in caches if c.load and c.register in apart]
    early = {*loads, *read}
    inline_most(fusion, [tensor for tensor in fusion.computed if tensor not in early])
    inline_at(tiles[0], len(laid.outer), best_effort=True, selected_tensors=loads)
    inline_at(sums, laid.places[0].start, best_effort=True, selected_tensors=read)


def _promise(fusion: Fusion, shape: Shape, params: MatmulByThreadsParams) -> None:
    """Facts that keep vectors whole: they divide the dimensions that they lie along."""
    domains = DomainMap(fusion)
    sides = zip(params.reads, (shape.rows, shape.columns), strict=True)
    facts = [(shape.summed if r.inward else axes[-1], r.vector) for r, axes in sides]
    names = {output.value.name for output in fusion.outputs}
    if shape.columns and names & set(params.vectorized):
        product, tile = product_of(fusion), params.tile
        facts.append((shape.columns[-1], adjacent(product.output, tile.columns, tile.threads[0])))
    fusion.divisors |= {(domains.extent_of(axis), width) for axis, width in facts if width > 1}


def _shared(operand: TensorView, sums: TensorView) -> TensorView:
    """A copy of an operand in shared memory, in the type of the sums."""
    fusion = operand.fusion
    wide = operand
    if operand.dtype is not sums.dtype:
        wide = fusion.tensor(sums.dtype, tuple(axis.clone() for axis in operand.shape_axes))
        product = sums.definition
        assert isinstance(product, Matmul)
        fusion.insert_before(product, Pointwise("cast", (operand,), wide))
        a, b = (wide if tensor is operand else tensor for tensor in (product.a, product.b))
        fusion.replace(product, Matmul(a, b, sums, product.axes))
    tile = cache_after(wide, [sums])
    set_memory_type(tile, MemoryType.shared)
    return tile


def _load(tile: TensorView, laid: Laid, own: IterDomain | None, reads: Reads, shape: Tile) -> None:
    """Loops of the threads that fill a tile, which lies in memory as they read it back."""
    outer = [axis.clone(IterType.iteration) for axis in laid.outer]
    axes = [axis.clone(IterType.iteration) for axis in (laid.depth, own) if axis is not None]
    set_allocation_domain(tile, tuple(axis.clone() for axis in axes))
    pad_allocation(tile, VECTOR_BYTES // tile.dtype.size)
    tile.loop = [*outer, *(reversed(axes) if reads.inward else axes)]
    split(tile, -1, reads.vector)
    merged(tile, tile.loop[len(outer) : -1])
    for threads in shape.threads:
        split(tile, len(outer), threads)
    for place, axis in enumerate(laid.outer):
        parallelize(tile, place, axis.parallel)
    kinds = (ParallelType.unroll, ParallelType.block_z, ParallelType.block_y, ParallelType.block_x)
    for place, kind in enumerate(kinds, len(outer)):
        parallelize(tile, place, kind)
