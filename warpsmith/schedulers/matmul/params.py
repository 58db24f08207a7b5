"""What a schedule of a matrix product is decided by."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsmith.schedulers.params import Params
from warpsmith.targets.atoms import ROWS
from warpsmith.values import dataclass

FRAGMENT = 8
STORED = 16
"""Columns of which the threads of a warp group hold a fragment, and that `stmatrix` stores."""

STEPS = 4
"""Instructions along the depth of a tile: 128 bytes, of which each takes 32."""


SCALE_STAGES = 2
"""Of the pipeline that brings scales along k."""

FOUR = 4
"""Neighbours among these that a thread copies at once: 16 bytes."""

OPERANDS = "operands"
"""Name of the pipeline whose stages chunks have in common with operands."""

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
"""Columns of numbers, and of conditions, one for each of many schedules."""

Count = int | Numbers
"""A number, or one for each of many schedules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulParams(Params):
    """A schedule of a matrix product.

    Attributes:
        tile: rows, columns and depth of a block's tile, or of a group's where groups take turns.
        lines: of 128 bytes, which that depth is.
        swapped: the second operand comes first: a tile's rows are the product's columns, n, and its
            columns the product's rows, m.
        stages: of the pipeline that brings tiles of the operands.
        chunk: columns of a tile that the TMA unit loads and stores at once beside the operands; 0
            where threads load and store whole fragments.
        loaded: inputs that it loads.
        staged: outputs that leave through shared memory, which it stores.
        by_rows: of these, those that threads store, along rows, and how many elements at once.
        load_stages: of the pipeline that loads chunks; 0 where the operands' stages do, behind the
            last step over k.
        store_stages: of the pipelines that store them; 1 where one stage holds all chunks of a
            tile.
        group: tiles along m that follow each other before the next column of tiles; of a grouped
            product tiles along n, before the next row.
        blocks: of the grid, which loop over the tiles.
        cluster: blocks of a cluster along m and n, which have tiles beside each other and load for
            each other what they share.
        splits: blocks of a cluster that have one tile, and each a part of k. Then `cluster` is one.
        parts: of k, which blocks of the grid have, or clusters. Each has one tile: the last that is
            done with a part of a tile adds up what all have summed of it, and stores it.
        once: clusters whose blocks have parts of k have one tile each, and are as many as tiles:
            nothing of a next tile is exchanged while the sums of one are read.
        once_read: whether what is loaded of the first operand, of the second leaves the L2 first.
        pairs: tensors of which threads access two columns at once.
        ping_pong: warp groups that have tiles of their own, and take turns: one multiplies while
            another stores. 0 where all groups of a block share its tile (cooperative).
        passes: over the rows that a warp group has of a tile, 64 each: it multiplies them one after
            the other in each step of k. Where threads carry sums over blocks of k, the products of
            all go to the same registers.
        scaled: steps of k whose scales come at once, where these differ along k; else 0.
        fours: scales of which a thread copies four at once.
        stream: of the tiles that are left for less than half a round several blocks have parts of k
            (stream-K).
        whole: what k is a multiple of, where an operand is computed: the steps of all blocks along
            it, so that nothing is past its end, or one step, which then is there or not.
    """

    tile: tuple[int, int, int]
    lines: int = 1
    swapped: bool = False
    stages: int
    chunk: int
    store_stages: int
    group: int
    blocks: int
    load_stages: int = 0
    loaded: tuple[str, ...] = ()
    staged: tuple[str, ...] = ()
    by_rows: tuple[tuple[str, int], ...] = ()
    once_read: tuple[bool, bool] = (False, False)
    pairs: tuple[str, ...] = ()
    cluster: tuple[int, int] = (1, 1)
    splits: int = 1
    parts: int = 1
    once: bool = False
    ping_pong: int = 0
    passes: int = 1
    scaled: int = 0
    fours: tuple[str, ...] = ()
    stream: bool = False
    whole: int = 1

    @property
    def shares(self) -> bool:
        """Whether chunks are loaded through the stages of the operands."""
        return bool(self.loaded) and not self.load_stages

    @property
    def strategy(self) -> str:
        return "ping-pong" if self.ping_pong else "cooperative"

    @property
    def groups(self) -> int:
        """Warp groups that multiply."""
        return self.ping_pong or self.tile[0] // (ROWS * self.passes)

    @property
    def harmless_spills(self) -> int:
        """Half a byte for each sum: a GELU whose operand is stored, too, spills 48 bytes in tiles
        of 128 x 192, and takes 137 us of 6011 x 3080 x 2056; in those of 128 x 160 144 (an H200).
        """
        rows, columns, _ = self.tile
        return rows * columns // ((1 if self.ping_pong else self.groups) * 2 * ROWS * 2)

    @property
    def turns(self) -> bool:
        """Whether blocks loop over the tiles."""
        return self.parts == 1 and not (self.once and self.splits > 1)

    @property
    def at_once(self) -> bool:
        """Whether all chunks of a tile are staged, and then stored."""
        return self.store_stages == 1

    @property
    def in_parts(self) -> bool:
        """Whether blocks have parts of k of one tile."""
        return self.splits * self.parts > 1 or self.stream

    @property
    def outer(self) -> int:
        """Loops outside a tile: over turns, the grid, the cluster, and groups that take turns."""
        return 1 + self.turns + (self.ping_pong > 0) + (self.cluster != (1, 1))

    @property
    def kept(self) -> int:
        """Columns of a tile whose results a block has."""
        staged = self.chunk > 0 and not self.swapped
        return int(kept(self.tile[1], self.splits, staged=staged))

    @property
    def outside(self) -> int:
        """Loops outside the results that a block has of a tile: over the shares of these, too."""
        return self.outer + (self.kept < self.tile[1])

    @property
    def threads(self) -> int:
        """Loops outside that over threads, of what these compute of a tile in chunks: over
        chunks, passes and groups, too.
        """
        return self.outside + 2 + (self.passes > 1)

    def __str__(self) -> str:
        return "\n".join(self.told())

    def told(self, *, by_group: bool = False) -> tuple[str, ...]:
        """Lines in the form of nvFuser's `Matmul Parameters`.

        Rows and columns are those of tiles: of a product whose operands are swapped, rows are n.
        Loads run ahead as far as there are stages, but for the one at work.

        Args:
            by_group: of a grouped product, whose tiles follow each other down columns.
        """
        rows, columns, depth = self.tile
        each = rows if self.ping_pong else rows // self.groups
        lines = [
            "===== Matmul Parameters ========",
            f"MMA macro: Hopper_{ROWS}_{columns}_{depth // STEPS}",
            "CircularBufferOptions:",
            f"  smem_circular_buffer_stage: {self.stages}",
            "  smem_circular_buffer_prefetch_gap: 1",
            f"MatMulTileOptions: warp tile [{each}, {columns}, {depth}], "
            f"CTA tile [{rows}, {columns}, {depth}]",
            f"Tile rasterization order: {'column' if by_group else 'row'}-major"
            f"{', operands swapped' if self.swapped else ''}",
            f"Grid swizzle factor: {self.group}",
            f"Tiling strategy: DistributeTilesAcrossSMs{', stream-K' if self.stream else ''}",
            f"Buffering loop level: {'WarpTiles' if self.ping_pong else 'CTATiles'} "
            f"({self.strategy}, {self.groups} warp groups)",
            "Circular buffering strategy: WarpSpecialized",
            f"__cluster_dims__{self.cluster if self.splits == 1 else (self.splits, 1)}",
            f"Use shared memory epilogue: {int(self.chunk > 0)}",
            f"Split-K factor: {self.splits * self.parts}",
            "================================",
        ]
        return tuple(lines)


def dividing(params: MatmulParams, k: int, *, computed: bool) -> int:
    """What is known to divide k: the steps of all blocks along it, or one, where scales come at
    once, or an operand is computed; 1 where neither does.
    """
    depth, steps = params.tile[2], tuple[int, ...]()
    if params.scaled:
        steps = (depth * params.scaled,)
    elif computed:
        steps = (depth * params.splits, depth)
    return next((step for step in steps if k and k % step == 0), 1)


def kept(columns: Count, splits: Count, *, staged: bool | Flags) -> Numbers:
    """Columns of a tile whose results a block has: a share of them where blocks have parts of k,
    and shares are whole fragments, or two; else all.

    Args:
        staged: whether four matrices at once are stored, two of them side by side.
    """
    least = np.where(staged, STORED, FRAGMENT)
    return np.where(columns % (splits * least), columns, columns // splits)
