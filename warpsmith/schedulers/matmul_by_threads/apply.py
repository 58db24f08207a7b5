"""Schedule a matrix product that threads multiply by its parameters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain, MemoryType, ParallelType
from warpsmith.ir.exprs import Matmul, Pointwise
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import cache_after
from warpsmith.schedule.inline import inline_at, inline_most
from warpsmith.schedule.propagate import parallelize_like, transform_like
from warpsmith.schedule.transforms import (
    merge,
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
from warpsmith.schedulers.matmul_by_threads.sides import computed_for


def apply(fusion: Fusion, caches: tuple[Cached, ...], params: MatmulByThreadsParams) -> None:
    """A block goes round the tiles of both operands along the summed dimension:

    ========= ==================================================================================
    product   `[grid_x, k tile, block_y, block_x, k | rows, vector | columns, vector]`
    operands  `[grid_x, k tile | passes, block_y, block_x, vector]`: into shared memory, and what
              they are computed from
    read back `[grid_x, k tile, block_y, block_x, k | rows or columns, vector]`: into registers
    others    `[grid_x, block_y, block_x, rows, vector, columns, vector]`
    ========= ==================================================================================

    Loops over dimensions that the product has once by definition are left out. Tiles are 0 past
    the ends of the operands (`lower/fills.py`).
    """
    product = product_of(fusion)
    sums = product.output
    shape = shape_of(product, swapped=params.swapped)
    _promise(fusion, shape, params)
    operands = (product.b, product.a) if params.swapped else (product.a, product.b)
    leading = [computed_for(fusion, operand) for operand in operands]
    apart = {id(sums), *leading[0], *leading[1]}
    rest = [tensor for tensor in fusion.computed if id(tensor) not in apart]
    tiled = _Tiled(sums, shape, params.tile)
    tiles = [_shared(operand, sums) for operand in operands]
    transform_like(sums, tiles)
    for tile, side, reads, own in zip(
        tiles, leading, params.reads, (tiled.rows, tiled.columns), strict=True
    ):
        _load(tile, tiled, own, reads, params.tile)
        sources = list({**side, **{id(t): t for t in fusion.producers(tile)}}.values())
        transform_like(tile, sources)
        parallelize_like(tile, selected_tensors=sources)
    tiled.divide()
    read = [cache_after(tile, [sums]) for tile in tiles]
    transform_like(sums, [*read, *rest])
    for copy, others in zip(read, (tiled.own_columns, tiled.own_rows), strict=True):
        _leave_out(copy, sums, others)
    parallelize_like(sums, selected_tensors=[*read, *rest])
    for copy, own in zip(read, (tiled.own_rows, tiled.own_columns), strict=True):
        if own and integers.constant(own[-1].extent) != 1:
            parallelize(copy, -1, ParallelType.vectorize)
    for cached in caches:
        if cached.name in params.vectorized:
            parallelize(cached.copy, -1, ParallelType.vectorize)
    loads = [c.register for c in caches if c.load and id(c.register) in apart]
    early = {*map(id, loads), *map(id, read)}
    inline_most(fusion, [tensor for tensor in fusion.computed if id(tensor) not in early])
    outer = len(tiled.outer)
    inline_at(tiles[0], outer, best_effort=True, selected_tensors=loads)
    inline_at(sums, tiled.depth_place + 1, best_effort=True, selected_tensors=read)


def _promise(fusion: Fusion, shape: Shape, params: MatmulByThreadsParams) -> None:
    """Facts that keep vectors whole: they divide the dimensions that they lie along."""
    domains = DomainMap(fusion)
    sides = zip(params.reads, (shape.rows, shape.columns), strict=True)
    facts = [(shape.summed if r.inward else axes[-1], r.vector) for r, axes in sides]
    names = {cached.value.name for cached in fusion.outputs}
    if shape.columns and names & set(params.vectorized):
        product = product_of(fusion)
        width = adjacent(product.output, params.tile.columns, params.tile.threads[1])
        facts.append((shape.columns[-1], width))
    fusion.divisors |= {(domains.extent_of(axis), width) for axis, width in facts if width > 1}


class _Tiled:
    """The loops of a product as they are split.

    Attributes:
        outer: over blocks, and over tiles along the summed dimension.
        rows, columns: of a tile; None where the product has none.
        depth: of a tile.
        own_rows, own_columns: those of a thread.
    """

    def __init__(self, sums: TensorView, shape: Shape, tile: Tile) -> None:
        self._sums, self._tile = sums, tile
        sums.loop = [*shape.batches, *shape.rows, *shape.columns, shape.summed]
        blocks = [_merged(sums, axes) for axes in (shape.batches, shape.rows, shape.columns)]
        self.rows: IterDomain | None = None
        self.columns: IterDomain | None = None
        if blocks[1] is not None:
            blocks[1], self.rows = _split(sums, blocks[1], tile.rows)
        if blocks[2] is not None:
            blocks[2], self.columns = _split(sums, blocks[2], tile.columns)
        turns, self.depth = _split(sums, shape.summed, tile.depth)
        grid = [axis for axis in blocks if axis is not None]
        inner = [axis for axis in (self.rows, self.columns) if axis is not None]
        sums.loop = [*grid, turns, *inner, self.depth]
        block = _merged(sums, grid)
        self.outer = [turns] if block is None else [block, turns]
        if block is not None:
            parallelize(sums, 0, ParallelType.grid_x)
        self.own_rows: list[IterDomain] = []
        self.own_columns: list[IterDomain] = []
        self.depth_place = 0

    def divide(self) -> None:
        """Share a tile out over the threads."""
        threads: list[IterDomain] = []
        y, x = self._tile.threads
        if self.rows is not None:
            thread, self.own_rows = self._shared_out(self.rows, self._tile.rows, y)
            threads.append(thread)
        if self.columns is not None:
            thread, self.own_columns = self._shared_out(self.columns, self._tile.columns, x)
            threads.append(thread)
        own = [*self.own_rows, *self.own_columns]
        self._sums.loop = [*self.outer, *threads, self.depth, *own]
        self.depth_place = len(self.outer) + len(threads)
        if self.rows is not None:
            parallelize(self._sums, len(self.outer), ParallelType.block_y)
        if self.columns is not None:
            parallelize(self._sums, self.depth_place - 1, ParallelType.block_x)

    def _shared_out(
        self, axis: IterDomain, edge: int, threads: int
    ) -> tuple[IterDomain, list[IterDomain]]:
        rest, vector = _split(self._sums, axis, adjacent(self._sums, edge, threads))
        passes, thread = _split(self._sums, rest, threads)
        return thread, [passes, vector]


def _merged(tensor: TensorView, axes: Sequence[IterDomain]) -> IterDomain | None:
    """One loop of adjacent ones, if there is any."""
    if not axes:
        return None
    place = tensor.loop.index(axes[0])
    for _ in axes[1:]:
        merge(tensor, place)
    return tensor.loop[place]


def _split(tensor: TensorView, axis: IterDomain, factor: int) -> tuple[IterDomain, IterDomain]:
    place = tensor.loop.index(axis)
    split(tensor, place, factor)
    return tensor.loop[place], tensor.loop[place + 1]


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


def _load(
    tile: TensorView, tiled: _Tiled, own: IterDomain | None, reads: Reads, shape: Tile
) -> None:
    """Loops of the threads that fill a tile, which lies in memory as they read it back."""
    sums, outer = tile.fusion.consumers(tile)[0], len(tiled.outer)
    axes = [tile.loop[sums.loop.index(axis)] for axis in (tiled.depth, own) if axis is not None]
    set_allocation_domain(tile, tuple(axis.clone() for axis in axes))
    pad_allocation(tile, VECTOR_BYTES // tile.dtype.size)
    tile.loop = [*tile.loop[:outer], *(reversed(axes) if reads.inward else axes)]
    split(tile, -1, reads.vector)
    _merged(tile, tile.loop[outer:-1])
    for threads in reversed(shape.threads):
        split(tile, outer, threads)
    for place, axis in enumerate(sums.loop[:outer]):
        parallelize(tile, place, axis.parallel)
    parallelize(tile, outer, ParallelType.unroll)
    parallelize(tile, outer + 1, ParallelType.block_y)
    parallelize(tile, outer + 2, ParallelType.block_x)


def _leave_out(copy: TensorView, reference: TensorView, axes: Iterable[IterDomain]) -> None:
    """Take loops over dimensions that a tensor lacks, by their places in the reference's."""
    gone = {reference.loop.index(axis) for axis in axes}
    copy.loop = [axis for place, axis in enumerate(copy.loop) if place not in gone]
