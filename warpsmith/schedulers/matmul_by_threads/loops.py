"""The loops of a product: over blocks, over tiles, over threads, and over the sums of a thread."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.ir.domains import IterDomain, ParallelType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import rfactor
from warpsmith.schedule.transforms import split, split_by_group
from warpsmith.schedulers.cover import merge_all
from warpsmith.schedulers.matmul_by_threads.heuristic import MatmulByThreadsParams, Shape
from warpsmith.schedulers.matmul_by_threads.tiles import VECTOR_BYTES, WarpTile, adjacent
from warpsmith.schedulers.reduction.apply import SPLITS
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Laid:
    """A product with its loops.

    Attributes:
        sums: what threads sum: the product, or the part of it that is reduced over them.
        outer: its loops over blocks, and over tiles along the summed dimension.
        rows, columns, depth: axes of a tile, before threads share them; None where the product has
            no rows, or no columns.
        places: of a thread's own loops over rows, and over columns, among the loops of `sums`.
        inside: loops of `sums` inside which each operand is read back.
        steps: place of the loop over adjacent steps of the depth, where threads read these at once.
    """

    sums: TensorView
    outer: tuple[IterDomain, ...]
    rows: IterDomain | None
    columns: IterDomain | None
    depth: IterDomain
    places: tuple[tuple[int, ...], tuple[int, ...]]
    inside: tuple[int, int]
    steps: int | None = None


def lay(product: TensorView, shape: Shape, params: MatmulByThreadsParams) -> Laid:
    """Give a product its loops, as `apply` lists them."""
    tile = params.tile
    product.loop = [*shape.batches, *shape.rows, *shape.columns, shape.summed]
    grid = [merged(product, axes) for axes in (shape.batches, shape.rows, shape.columns)]
    within: list[IterDomain | None] = [None, None]
    for side, edge in enumerate((tile.rows, tile.columns)):
        axis = grid[side + 1]
        if axis is not None:
            grid[side + 1], within[side] = _split(
                product, axis, edge, by_group=axis is shape.grouped
            )
    turns, depth = _split(product, shape.summed, tile.depth)
    blocks = [axis for axis in grid if axis is not None]
    product.loop = [*blocks, turns, *(axis for axis in within if axis is not None), depth]
    outer = [merged(product, blocks), turns]
    if params.shared:
        count = Symbol(SPLITS, low=1)
        Fusion.of(product).launch_symbols.append(count)
        turns, part = _split(product, turns, count)  # blocks take tiles in turn
        part.parallel = ParallelType.grid_y
        outer[1:] = part, turns
    if outer[0] is not None:
        outer[0].parallel = ParallelType.grid_x
    around = [axis for axis in outer if axis is not None]
    if isinstance(tile, WarpTile):
        return _of_warps(product, tile, around, (within[0], within[1], depth))
    x, y, z = tile.threads
    threads: list[IterDomain] = []
    side_by_side: list[IterDomain] = []
    own: tuple[list[IterDomain], list[IterDomain]] = [], []
    for side, edge, count_of, kind in (
        (0, tile.rows, y * tile.pairs, ParallelType.block_y),
        (1, tile.columns, x // tile.pairs, ParallelType.block_x),
    ):
        axis = within[side]
        if axis is None:
            continue
        each = 1 if params.reads[side].lines else adjacent(product.dtype.size, edge, count_of)
        rest, vector = _split(product, axis, each)
        passes, thread = _split(product, rest, count_of)
        own[side][:] = passes, vector
        if kind is ParallelType.block_y:
            thread, pair = _split(product, thread, tile.pairs)
            thread.parallel = kind
            threads.append(thread)
            side_by_side = [pair]
        else:
            side_by_side.insert(0, thread)
    own_depth = depth
    if z > 1:
        thread, own_depth = _split(product, depth, tile.depth // z)
        thread.parallel = ParallelType.block_z
        threads.append(thread)
    along = any(read.lines for read in params.reads)
    own_depth, *steps = (
        _split(product, own_depth, VECTOR_BYTES // product.dtype.size) if along else (own_depth,)
    )
    product.loop = [*around, *threads, *side_by_side, own_depth, *own[0], *steps, *own[1]]
    lanes = merged(product, side_by_side)
    if lanes is not None:
        lanes.parallel = ParallelType.block_x
        threads.append(lanes)
    first = len(around) + len(threads) + 1
    inside = first + (2 if params.reads[0].lines else 1) * along, first
    of_rows, of_columns = (tuple(map(product.loop.index, side)) for side in own)
    step = product.loop.index(steps[0]) if steps else None
    ends = within[0], within[1], depth
    return Laid(_part(product), tuple(around), *ends, (of_rows, of_columns), inside, step)


def _of_warps(
    product: TensorView,
    tile: WarpTile,
    around: list[IterDomain],
    within: tuple[IterDomain | None, IterDomain | None, IterDomain],
) -> Laid:
    """`[.., block_y, block_z, step, k, rows / 16, columns / 8, 16, 8]`, of doubles 8 for 16."""
    rows, columns, depth = within
    assert rows is not None
    assert columns is not None
    _, y, z = tile.threads
    of_rows, row = _split(product, rows, tile.atom[0])
    rest, column = _split(product, columns, tile.atom[1])
    warp, of_columns = _split(product, rest, tile.columns // tile.atom[1] // y)
    warp.parallel = ParallelType.block_y
    threads, own_depth = [warp], depth
    if z > 1:
        part, own_depth = _split(product, depth, tile.depth // z)
        part.parallel = ParallelType.block_z
        threads.append(part)
    steps, each = _split(product, own_depth, tile.atom[2])
    product.loop = [*around, *threads, steps, each, of_rows, of_columns, row, column]
    first = len(around) + len(threads) + 2
    places = (first, first + 2), (first + 1, first + 3)
    inside = first - 1, first - 1
    return Laid(_part(product), tuple(around), rows, columns, depth, places, inside)


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
    merge_all(tensor, place, place + len(axes))
    return tensor.loop[place]


def _split(
    tensor: TensorView, axis: IterDomain, factor: int | Symbol, *, by_group: bool = False
) -> tuple[IterDomain, IterDomain]:
    place = tensor.loop.index(axis)
    if by_group and isinstance(factor, int):
        split_by_group(tensor, place, factor)
    else:
        split(tensor, place, factor)
    return tensor.loop[place], tensor.loop[place + 1]
