"""Choice of tiles and stages for a matrix product, by predicted time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

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

STEP = 32
"""What the columns of a tile are multiples of."""

TILES = tuple((ROWS, columns) for columns in range(256, STEP, -STEP))
"""Rows and columns of tiles, of two warp groups."""

SMALL = tuple((ROWS // 2, columns) for columns in range(256, 0, -STEP))
"""Those of one warp group, for products of few rows or few tiles."""

CLUSTERS = ((1, 1), (2, 1), (1, 2))
"""Blocks of a cluster along m and n: each loads half of what both have of an operand."""

SPLITS = (2, 4, 8)
"""Blocks of a cluster that may have parts of k of one tile."""

FEWEST_STAGES = 4
"""With fewer, products wait for loads."""

SUM_BYTES = 4
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

# Fitted to one H200, 2026-11-23, at sizes drawn at random: docs/lessons/matmul.md.

TENSOR_SHARE = 0.89
"""Of the rate of tensor cores, what two warp groups of a multiprocessor reach as they multiply."""

ONE_GROUP_SHARE = 0.78
"""The same of one warp group."""

L2_SHARE = 1.4
SM_SHARE = 0.8
"""Of the rates of the target, at which the L2 gives tiles, and a multiprocessor takes them."""

UNALIGNED = 2.1
"""So many times as much is read where lines of a box are parts of two lines of memory."""

START_US = 5.7
"""A launch, and the first loads."""

CLUSTER_US = 0.6
"""How much later clusters start."""

JOIN_RATE = 13e3
"""Bytes a microsecond of what a block gets of all that have parts of k, until they are added up."""

STORE_US = 0.96 / (128 * 128)
SCATTER_US = 1.42 / (128 * 128)
"""An element of the result, staged in shared memory, and stored by threads from registers."""


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
        splits: blocks of a cluster that have one tile, and each a part of k. Then `cluster` is one.
        groups: warp groups that multiply.
        strategy: `cooperative`, where each group has 64 rows of a block's tile; or `ping_pong`,
            where each has tiles of its own, and multiplies one while others store theirs.
        pairs: tensors of which threads that store from registers access two columns at once.
    """

    tile: tuple[int, int, int]
    stages: int
    chunk: int
    store_stages: int
    group: int
    blocks: int
    pairs: tuple[str, ...] = ()
    cluster: tuple[int, int] = (1, 1)
    splits: int = 1
    groups: int = 1
    strategy: Literal["cooperative", "ping_pong"] = "cooperative"

    @property
    def takes_turns(self) -> bool:
        """Whether groups have tiles of their own."""
        return self.strategy == "ping_pong"

    @property
    def outer(self) -> int:
        """Loops outside a tile: over turns, the grid and, where there are, groups that take turns
        and the cluster.
        """
        return 2 + self.takes_turns + (self.cluster != (1, 1))


def product_of(fusion: Program) -> Matmul:
    """The one product of a fusion."""
    return next(op for op in fusion.operations if isinstance(op, Matmul))


def choose(fusion: Program, problem: Problem) -> MatmulParams:
    """The candidate of the smallest predicted time, for a problem of sizes that are supported."""
    product = product_of(fusion)
    shape = shape_of(product)
    sizes = [problem.size(axis.extent) for axis in product.output.root]
    batches, m = (math.prod(sizes[p] for p in places) for places in (shape.batches, shape.rows))
    n, k = sizes[-2:]
    element = product.a.dtype.size
    staged = not staging_refusal(fusion, product, problem)
    own = () if staged else pairs(fusion, product, problem)
    turned = [is_turned(product, which) for which in (0, 1)]
    lines = [length * element for length in ((m, n)[w] if turned[w] else k for w in (0, 1))]

    def predicted(params: MatmulParams) -> float:
        parts = [
            math.gcd(line, edge * element if across else DEPTH_BYTES)
            for line, edge, across in zip(lines, params.tile[:2], turned, strict=True)
        ]
        unaligned = [part % DEPTH_BYTES != 0 for part in parts]
        return predicted_us(params, m, n, k, problem.target, batches, unaligned)

    return min(candidates(m, n, problem, element=element, staged=staged, pairs=own), key=predicted)


def candidates(
    m: int,
    n: int,
    problem: Problem,
    *,
    element: int = 2,
    staged: bool = True,
    pairs: tuple[str, ...] = (),
) -> Iterator[MatmulParams]:
    """Schedules of a product of m rows and n columns, with operands of `element` bytes."""
    limits = problem.target.family.limits
    for rows, columns in (*TILES, *SMALL):
        along = (_tiles(m, rows), _tiles(n, columns))
        chunk = _chunk(columns) if staged else 0
        for cluster, splits in (*((each, 1) for each in CLUSTERS), *(((1, 1), s) for s in SPLITS)):
            blocks = math.prod(cluster) * splits
            held = stages((rows, columns), limits, chunk, splits)
            apart = any(count < own > 1 for count, own in zip(along, cluster, strict=True))
            if apart or held < FEWEST_STAGES or (blocks > 1 and not problem.target.runs((blocks,))):
                continue
            yield MatmulParams(
                tile=(rows, columns, DEPTH_BYTES // element),
                stages=held,
                chunk=chunk,
                store_stages=STORE_STAGES if staged else 0,
                group=_group(_tiles(along[0], cluster[0])),
                blocks=_blocks(problem.target, blocks),
                pairs=pairs,
                cluster=cluster,
                splits=splits,
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
        unaligned: whether lines of a's boxes, and of b's, start at no multiples of 128 bytes.
    """
    rows, columns, depth = params.tile
    tiles, places = (batches * count * params.splits for count in _count(params, m, n))
    share = TENSOR_SHARE if rows == ROWS else ONE_GROUP_SHARE
    products = rows * columns * DEPTH_BYTES  # multiplications and additions of 16-bit operands
    multiplied = products / (share * target.rates.tensor / target.sm_count)
    along = zip((rows, columns), reversed(params.cluster), unaligned, strict=True)
    read = DEPTH_BYTES * sum(lines / by * (UNALIGNED if late else 1) for lines, by, late in along)
    step = max(
        multiplied,
        read * min(tiles, params.blocks) / (L2_SHARE * target.rates.l2),
        DEPTH_BYTES * (rows + columns) / (SM_SHARE * target.rates.sm_load),
    )
    splits = params.splits
    start = START_US + (CLUSTER_US if splits > 1 or params.cluster != (1, 1) else 0.0)
    joined = splits * rows * columns * SUM_BYTES / JOIN_RATE if splits > 1 else 0.0
    stored = (STORE_US if params.chunk else SCATTER_US) * rows * columns
    each = _tiles(_tiles(k, depth), splits) * step + joined + stored
    return start + _tiles(places, params.blocks) * each


def stages(tile: tuple[int, ...], limits: Limits, chunk: int = CHUNK, splits: int = 1) -> int:
    """Stages for tiles of both operands that shared memory holds beside the staged result, and
    beside what blocks with parts of k have summed: all of it from each, twice.

    Args:
        tile: rows, columns, and more that does not count.
        limits: of the target.
        chunk: as of the parameters.
    """
    rows, columns = tile[:2]
    staged = STORE_STAGES * rows * chunk * STAGED_BYTES
    joined = 2 * splits * rows * columns * SUM_BYTES if splits > 1 else 0
    room = limits.block_shared - BARRIER_BYTES - staged - joined
    return min(room // ((rows + columns) * DEPTH_BYTES), MOST_STAGES)


def _chunk(columns: int) -> int:
    """Columns of the result that are staged at once: as many as a swizzle permutes, or half."""
    return next(chunk for chunk in (CHUNK, CHUNK // 2) if columns % chunk == 0)


def _blocks(target: Target, cluster: int) -> int:
    """Blocks of a grid that all run at once, in clusters of so many."""
    return target.sm_count if cluster == 1 else cluster * dict(target.clusters)[cluster]


def _count(params: MatmulParams, m: int, n: int) -> tuple[int, int]:
    """Tiles of one batch that blocks load, those of clusters outside the product among them; and
    places for tiles, with the empty ones of the last group.
    """
    rows, columns, _ = params.tile
    down, across = params.cluster
    along, beside = _tiles(m, rows * down), _tiles(n, columns * across) * down * across
    return along * beside, _tiles(along, params.group) * params.group * beside


def _group(tiles: int) -> int:
    """Tiles along m of one group: many, yet so that few places of the last group are empty."""
    least, most = (max(min(tiles, bound), 1) for bound in (GROUP // 2, GROUP))
    return min(range(least, most + 1), key=lambda group: (_tiles(tiles, group) * group, -group))


def _tiles(extent: int, edge: int) -> int:
    return -(-extent // edge)
