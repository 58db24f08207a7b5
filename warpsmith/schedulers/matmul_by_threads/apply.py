"""Schedule a matrix product that threads multiply by its parameters."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.ir.domains import IterDomain, MemoryType, ParallelType
from warpsmith.ir.exprs import Matmul, Pointwise
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import cache_after
from warpsmith.schedule.inline import inline_most
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
    MatmulByThreadsParams,
    Shape,
    shape_of,
)
from warpsmith.schedulers.matmul_by_threads.sides import computed_for

VECTOR = 4
"""Adjacent sums of a thread along either dimension, as far as it has so many."""


def apply(fusion: Fusion, caches: tuple[Cached, ...], params: MatmulByThreadsParams) -> None:
    """A block goes round the tiles of both operands along the summed dimension:

    ========= ==================================================================================
    product   `[grid_x, k tile, block_y, block_x, k | rows, vector | columns, vector]`
    operands  `[grid_x, k tile, passes, block_y, block_x, vector]`: into shared memory, and what
              they are computed from
    read back `[grid_x, k tile, block_y, block_x, k | rows or columns, vector]`: into registers
    others    `[grid_x, block_y, block_x, rows, vector, columns, vector]`
    ========= ==================================================================================

    Loops over dimensions that the product has by definition once are left out.
    """
    product = product_of(fusion)
    sums = product.output
    shape = shape_of(product, swapped=params.swapped)
    operands = [product.a, product.b]
    leading = [computed_for(fusion, operand) for operand in operands]
    rest = [
        t for t in fusion.computed if t is not sums and not any(id(t) in side for side in leading)
    ]
    tiles = _Tiles(sums, shape, params)
    shared = [_shared(operand, sums) for operand in operands]
    transform_like(sums, shared)
    for side, tile in zip(leading, shared, strict=True):
        for source in fusion.producers(tile):
            side[id(source)] = source  # a cast among them
        mine = tiles.rows if (tile is shared[0]) is not params.swapped else tiles.columns
        _load(tile, sums, mine, tiles, params)
        others = list(side.values())
        transform_like(tile, others)
        parallelize_like(tile, selected_tensors=others)
    tiles.divide()
    read = [cache_after(tile, [sums]) for tile in shared]
    transform_like(sums, [*read, *rest])
    for copy in read:
        mine = (copy is read[0]) is not params.swapped
        other = tiles.of_columns if mine else tiles.of_rows
        gone = {sums.loop.index(axis) for axis in other}
        copy.loop = [axis for place, axis in enumerate(copy.loop) if place not in gone]
    parallelize_like(sums, selected_tensors=[*read, *rest])
    inline_most(fusion, fusion.computed)


class _Tiles:
    """The loops of a product as they are split; each place is one of its axes, or absent."""

    def __init__(self, sums: TensorView, shape: Shape, params: MatmulByThreadsParams) -> None:
        self._sums = sums
        self._threads = params.threads
        rows, columns, depth = params.tile
        sums.loop = [*shape.batches, *shape.rows, *shape.columns, shape.summed]
        m, n = _merged(sums, shape.rows), _merged(sums, shape.columns)
        batches = _merged(sums, shape.batches)
        outer_m, self.rows = _split(sums, m, rows)
        outer_n, self.columns = _split(sums, n, columns)
        outer_k, self.depth = _split(sums, shape.summed, depth)
        assert self.depth is not None and outer_k is not None
        blocks = [axis for axis in (batches, outer_m, outer_n) if axis is not None]
        inner = [axis for axis in (self.rows, self.columns) if axis is not None]
        sums.loop = [*blocks, outer_k, *inner, self.depth]
        grid = _merged(sums, blocks)
        self.outer = [axis for axis in (grid, outer_k) if axis is not None]
        if grid is not None:
            grid.parallel = ParallelType.grid_x
        self.of_rows: list[IterDomain] = []
        self.of_columns: list[IterDomain] = []

    def divide(self) -> None:
        """Share a tile out over the threads."""
        y, self.of_rows = self._threaded(self.rows, self._threads[0], ParallelType.block_y)
        x, self.of_columns = self._threaded(self.columns, self._threads[1], ParallelType.block_x)
        own = [*self.of_rows, *self.of_columns]
        assert self.depth is not None
        self._sums.loop = [*self.outer, *y, *x, self.depth, *own]

    def _threaded(
        self, axis: IterDomain | None, threads: int, kind: ParallelType
    ) -> tuple[list[IterDomain], list[IterDomain]]:
        if axis is None:
            return [], []
        extent = int(axis.extent.value)
        vector = min(VECTOR, max(extent // threads, 1))
        outer, inner = _split(self._sums, axis, vector)
        passes, thread = _split(self._sums, outer, threads)
        assert thread is not None and passes is not None and inner is not None
        thread.parallel = kind
        return [thread], [passes, inner]


def _merged(tensor: TensorView, axes: Sequence[IterDomain]) -> IterDomain | None:
    """One loop of adjacent ones, if there is any."""
    if not axes:
        return None
    place = tensor.loop.index(axes[0])
    for _ in axes[1:]:
        merge(tensor, place)
    return tensor.loop[place]


def _split(
    tensor: TensorView, axis: IterDomain | None, factor: int
) -> tuple[IterDomain | None, IterDomain | None]:
    if axis is None:
        return None, None
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
        inputs = (wide if t is operand else t for t in (product.a, product.b))
        fusion.replace(product, Matmul(*inputs, sums, product.axes))
    tile = cache_after(wide, [sums])
    set_memory_type(tile, MemoryType.shared)
    return tile


def _load(
    tile: TensorView,
    sums: TensorView,
    mine: IterDomain | None,
    tiles: _Tiles,
    params: MatmulByThreadsParams,
) -> None:
    """Loops of the threads that fill a tile, which lies in memory as they read it back."""
    outer = len(tiles.outer)
    own = [tile.loop[sums.loop.index(axis)] for axis in (tiles.depth, mine) if axis is not None]
    rows, columns = params.threads
    tile.loop = [*tile.loop[:outer], *own]
    set_allocation_domain(tile, tuple(axis.clone() for axis in own))
    pad_allocation(tile, VECTOR)
    for _ in own[1:]:
        merge(tile, outer)
    split(tile, outer, columns)
    split(tile, outer, rows)
    for place, axis in enumerate(sums.loop[:outer]):
        parallelize(tile, place, axis.parallel)
    parallelize(tile, outer + 1, ParallelType.block_y)
    parallelize(tile, outer + 2, ParallelType.block_x)
