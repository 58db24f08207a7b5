"""The loops of a product: over blocks, over tiles, over threads, and over the sums of a thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.ir.domains import IterDomain, ParallelType
from warpsmith.ir.scalar import Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import rfactor
from warpsmith.schedule.transforms import merge, split
from warpsmith.schedulers.matmul_by_threads.heuristic import (
    MatmulByThreadsParams,
    Shape,
    adjacent,
)
from warpsmith.schedulers.reduction.apply import SPLITS


@dataclass(frozen=True, slots=True)
class Laid:
    """A product with its loops.

    Attributes:
        sums: what threads sum: the product, or the part of it that is reduced over them.
        outer: its loops over blocks, and over tiles along the summed dimension.
        rows, columns, depth: axes of a tile, before threads share them; None where the product has
            no rows, or no columns.
        places: of a thread's own loops over rows, and over columns, among the loops of `sums`.
    """

    sums: TensorView
    outer: tuple[IterDomain, ...]
    rows: IterDomain | None
    columns: IterDomain | None
    depth: IterDomain
    places: tuple[range, range]


def lay(product: TensorView, shape: Shape, params: MatmulByThreadsParams) -> Laid:
    """Give a product its loops, as `apply` lists them."""
    tile = params.tile
    product.loop = [*shape.batches, *shape.rows, *shape.columns, shape.summed]
    grid = [merged(product, axes) for axes in (shape.batches, shape.rows, shape.columns)]
    within: list[IterDomain | None] = [None, None]
    for side, edge in enumerate((tile.rows, tile.columns)):
        axis = grid[side + 1]
        if axis is not None:
            grid[side + 1], within[side] = _split(product, axis, edge)
    turns, depth = _split(product, shape.summed, tile.depth)
    blocks = [axis for axis in grid if axis is not None]
    product.loop = [*blocks, turns, *(axis for axis in within if axis is not None), depth]
    outer = [merged(product, blocks), turns]
    if params.shared:
        count = Symbol(SPLITS, low=1)
        product.fusion.launch_symbols.append(count)
        turns, part = _split(product, turns, count)  # blocks take tiles in turn
        part.parallel = ParallelType.grid_y
        outer[1:] = part, turns
    if outer[0] is not None:
        outer[0].parallel = ParallelType.grid_x
    x, y, z = tile.threads
    threads: list[IterDomain] = []
    own: tuple[list[IterDomain], list[IterDomain]] = [], []
    for side, edge, count_of, kind in (
        (0, tile.rows, y, ParallelType.block_y),
        (1, tile.columns, x, ParallelType.block_x),
    ):
        axis = within[side]
        if axis is not None:
            rest, vector = _split(product, axis, adjacent(product, edge, count_of))
            passes, thread = _split(product, rest, count_of)
            thread.parallel = kind
            threads.append(thread)
            own[side][:] = passes, vector
    own_depth = depth
    if z > 1:
        own_depth, thread = _split(product, depth, z)
        thread.parallel = ParallelType.block_z
        threads.append(thread)
    around = [axis for axis in outer if axis is not None]
    product.loop = [*around, *threads, own_depth, *own[0], *own[1]]
    first = len(around) + len(threads) + 1
    middle, last = first + len(own[0]), len(product.loop)
    places = range(first, middle), range(middle, last)
    return Laid(_part(product), tuple(around), within[0], within[1], depth, places)


def _part(product: TensorView) -> TensorView:
    """What each thread sums: a part, where threads share what is summed."""
    summed = [place for place, axis in enumerate(product.loop) if axis.is_reduction]
    own = [place for place in summed if not product.loop[place].parallel.is_thread]
    return product if own == summed else rfactor(product, own)[0]


def merged(tensor: TensorView, axes: Sequence[IterDomain]) -> IterDomain | None:
    """One loop of adjacent ones, if there is any."""
    if not axes:
        return None
    place = tensor.loop.index(axes[0])
    for _ in axes[1:]:
        merge(tensor, place)
    return tensor.loop[place]


def _split(
    tensor: TensorView, axis: IterDomain, factor: int | Symbol
) -> tuple[IterDomain, IterDomain]:
    place = tensor.loop.index(axis)
    split(tensor, place, factor)
    return tensor.loop[place], tensor.loop[place + 1]
