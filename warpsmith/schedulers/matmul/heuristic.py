"""Choice of tiles and stages for a matrix product, by predicted time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

from warpsmith.ir.exprs import Matmul
from warpsmith.ir.program import Program
from warpsmith.schedulers.matmul.memory import pairs, staging_refusal, unsupported_sizes
from warpsmith.schedulers.matmul.shape import is_turned, shape_of
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.family import Limits
from warpsmith.targets.target import Target

__all__ = [
    "MatmulParams",
    "candidates",
    "choose",
    "predicted_us",
    "product_of",
    "unsupported_sizes",
]

ROWS = 128
DEPTH_BYTES = 128
"""Rows of a block's tile, 64 for each of two warp groups, and bytes of k that a stage holds of
each: what a swizzle permutes."""

COLUMNS = (256, 192, 128, 64)
"""Columns that a tile may have: half as many registers a thread hold its sums."""

TILES = tuple((ROWS, columns) for columns in COLUMNS)
"""Rows and columns of tiles, of two warp groups."""

SMALL = ((64, 64), (64, 32))
"""Those of one warp group, for products of few rows or few tiles."""

BARRIER_BYTES = 1024
"""Shared memory of a block that barriers and alignment take."""

MOST_STAGES = 8

CHUNK = 64
STORE_STAGES = 2
STAGED_BYTES = 2
"""Columns of the result that are staged at once, 128 bytes of each row, stages for them, and bytes
of an element."""

GROUP = 16
"""Most tiles along m that are computed beside each other, so that operands are met in L2 again."""

# Fitted to one H200, 2026-11-21: docs/lessons/matmul.md.

TENSOR_SHARE = 0.78066
"""Of the rate of tensor cores, what two warp groups of each multiprocessor reach: they multiply 128
rows by one column, over 128 bytes of k, in 0.0028 microseconds."""

UNALIGNED = 1.5
"""So much more is loaded where rows do not start at multiples of 128 bytes."""

START_US = 5.8
"""A launch, the first loads, and storing the last tile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulParams:
    """A schedule of a matrix product.

    Attributes:
        tile: rows, columns and depth of a block's tile.
        stages: of the pipeline that brings tiles of the operands.
        chunk: columns of the result that are staged at once; 0 where threads store their fragments
            from registers.
        store_stages: of the pipeline that stores them.
        group: tiles along m that follow each other before the next column of tiles.
        blocks: of the grid, which go round the tiles.
        cluster: blocks of a cluster along m and n, which have tiles beside each other and load for
            each other what they share.
        pairs: tensors of which threads that store from registers access two columns at once.
    """

    tile: tuple[int, int, int]
    stages: int
    chunk: int
    store_stages: int
    group: int
    blocks: int
    pairs: tuple[str, ...] = ()
    cluster: tuple[int, int] = field(default=(1, 1), repr=False)

    @property
    def outer(self) -> int:
        """Loops outside a tile: over turns, the grid and, where there is one, the cluster."""
        return 2 if self.cluster == (1, 1) else 3


def product_of(fusion: Program) -> Matmul:
    """The one product of a fusion."""
    return next(op for op in fusion.operations if isinstance(op, Matmul))


def choose(fusion: Program, problem: Problem) -> MatmulParams:
    """The candidate of the smallest predicted time, for a problem of sizes that are supported."""
    product = product_of(fusion)
    shape = shape_of(product)
    sizes = [problem.size(axis.extent) for axis in product.output.root]
    batches, m = (prod(sizes[p] for p in places) for places in (shape.batches, shape.rows))
    n, k = sizes[-2:]
    element = product.a.dtype.size
    staged = not staging_refusal(fusion, product, problem)
    own = () if staged else pairs(fusion, product, problem)
    along = [(m, n)[which] if is_turned(product, which) else k for which in (0, 1)]
    unaligned = [length * element % DEPTH_BYTES != 0 for length in along]
    tiles = [*candidates(m, problem, TILES, element=element, staged=staged, pairs=own)]
    if m <= SMALL[0][0] or 2 * batches * _count(tiles[-1], m, n) < problem.target.sm_count:
        tiles += candidates(m, problem, SMALL, element=element, staged=staged, pairs=own)
    return min(
        tiles,
        key=lambda params: predicted_us(params, m, n, k, problem.target, batches, unaligned),
    )


def candidates(
    m: int,
    problem: Problem,
    tiles: tuple[tuple[int, int], ...] = TILES,
    *,
    element: int = 2,
    staged: bool = True,
    pairs: tuple[str, ...] = (),
) -> Iterator[MatmulParams]:
    """A schedule for each shape of a tile, in rows and columns, of operands of `element` bytes."""
    for rows, columns in tiles:
        chunk = min(CHUNK, columns) if staged else 0
        yield MatmulParams(
            tile=(rows, columns, DEPTH_BYTES // element),
            stages=stages((rows, columns), problem.target.family.limits, chunk),
            chunk=chunk,
            store_stages=STORE_STAGES if staged else 0,
            group=_group(_tiles(m, rows)),
            blocks=problem.target.sm_count,
            pairs=pairs,
        )


def predicted_us(
    params: MatmulParams,
    m: int,
    n: int,
    k: int,
    target: Target,
    batches: int = 1,
    unaligned: Sequence[bool] = (False, False),
) -> float:
    """Microseconds of a product: as many rounds of tiles as blocks go.

    A step over k takes as long as its products or, where all blocks load at once, its loads.

    Args:
        unaligned: whether rows of a, and of b, start at no multiples of 128 bytes.
    """
    rows, columns, depth = params.tile
    tiles = batches * _count(params, m, n)
    loaded = zip((rows, columns), unaligned, strict=True)
    each = DEPTH_BYTES * sum(lines * (UNALIGNED if late else 1) for lines, late in loaded)
    products = rows * columns * DEPTH_BYTES  # multiplications and additions of 16-bit operands
    multiplied = products / (TENSOR_SHARE * target.rates.tensor / target.sm_count)
    step = max(multiplied, each * min(tiles, params.blocks) / target.rates.l2)
    if rows < ROWS:
        step = max(step, each / target.rates.sm_load)
    return START_US + _tiles(tiles, params.blocks) * _tiles(k, depth) * step


def stages(tile: tuple[int, ...], limits: Limits, chunk: int = CHUNK) -> int:
    """Stages for tiles of both operands that shared memory holds beside the staged result.

    Args:
        tile: rows, columns, and more that does not count.
        limits: of the target.
        chunk: as of the parameters.
    """
    rows, columns = tile[:2]
    staged = STORE_STAGES * rows * chunk * STAGED_BYTES
    room = limits.block_shared - BARRIER_BYTES - staged
    return min(room // ((rows + columns) * DEPTH_BYTES), MOST_STAGES)


def _count(params: MatmulParams, m: int, n: int) -> int:
    """Tiles of one batch, the empty places of the last group among them."""
    rows, columns, _ = params.tile
    return _tiles(_tiles(m, rows), params.group) * params.group * _tiles(n, columns)


def _group(tiles: int) -> int:
    """Tiles along m of one group: many, yet so that few places of the last group are empty."""
    least, most = (max(min(tiles, bound), 1) for bound in (GROUP // 2, GROUP))
    return min(range(least, most + 1), key=lambda group: (_tiles(tiles, group) * group, -group))


def _tiles(extent: int, edge: int) -> int:
    return -(-extent // edge)
