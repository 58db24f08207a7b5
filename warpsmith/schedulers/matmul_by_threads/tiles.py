"""What a block, and each of its threads, multiplies at a time."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.targets.family import WARP
from warpsmith.values import dataclass

VECTOR_BYTES = 16
"""What a thread reads from shared memory at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """What a block multiplies at a time.

    Attributes:
        rows, columns, depth: of the summed dimension the depth.
        threads: of a block along columns and pairs, along the other rows, and along the depth.
        pairs: rows of threads that lie side by side. With two, threads that read shared memory at
            once read half as many columns, and meet no bank twice.
        stages: tiles of each operand that are in shared memory, or under way, at once.
        blocks_per_sm: blocks that a multiprocessor is to hold at once; 0 leaves it to the compiler.
        lines: threads have registers for four steps of the depth at once, so that lines of a tile
            may lie along it.
    """

    rows: int
    columns: int
    depth: int
    threads: tuple[int, int, int]
    pairs: int = 1
    stages: int = 3
    blocks_per_sm: int = 0
    lines: bool = False

    def adjacent(self, size: int) -> int:
        """Adjacent columns of sums of so many bytes that a thread has."""
        return adjacent(size, self.columns, self.threads[0] // self.pairs)

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return prod(self.threads) // WARP

    @property
    def sums(self) -> tuple[int, int]:
        """Rows and columns of a thread."""
        x, y, _ = self.threads
        return self.rows // (y * self.pairs), self.columns * self.pairs // x


@dataclass(frozen=True, slots=True, kw_only=True)
class WarpTile(Tile):
    """What warps multiply at a time by `mma.sync`: each all rows, and some of the columns.

    Attributes:
        threads: of a warp, warps along columns, and warps along the depth.
        atom: rows, columns and depth of the instruction.
    """

    atom: tuple[int, int, int]

    def adjacent(self, size: int) -> int:
        return PAIR


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """How threads fill a tile of an operand.

    Attributes:
        inward: threads that lie side by side read along the summed dimension.
        vector: adjacent elements per thread and access.
        carrier: `cp.async` and the TMA unit bring the elements as they are, some tiles ahead of the
            products; what the TMA unit brings lies in shared memory as it does in the other.
    """

    inward: bool
    vector: int
    carrier: LoadStoreOpType = LoadStoreOpType.set

    @property
    def ahead(self) -> bool:
        """Whether tiles are on their way while others are multiplied."""
        return self.carrier is not LoadStoreOpType.set

    @property
    def lines(self) -> bool:
        """Whether a tile's lines in shared memory lie along the summed dimension."""
        return self.inward and self.carrier.is_tma

    @property
    def singly(self) -> bool:
        """Whether elements are copied one at a time, to become lines along rows or columns."""
        return self.inward and self.carrier is LoadStoreOpType.cp_async


def adjacent(size: int, edge: int, threads: int) -> int:
    """Adjacent sums of so many bytes that a thread has of so many that some threads share."""
    return max(min(VECTOR_BYTES // size, edge // threads), 1)


DEPTH_BYTES = 128
PAIR = 2
"""Bytes along the depth of a tile of warps, four instructions; adjacent columns of a thread."""

LARGE = Tile(rows=128, columns=128, depth=16, threads=(32, 8, 1), pairs=2, blocks_per_sm=2)
WIDE = Tile(
    rows=128,
    columns=256,
    depth=16,
    threads=(32, 8, 1),
    pairs=2,
    stages=4,
    blocks_per_sm=1,
    lines=True,
)
HIGH = replace(WIDE, rows=256, columns=128)
DEEP = replace(WIDE, depth=32, stages=3)
BROAD = Tile(
    rows=64, columns=128, depth=32, threads=(32, 4, 1), pairs=2, blocks_per_sm=3, lines=True
)
STEEP = replace(BROAD, rows=128, columns=64, threads=(16, 8, 1))
NARROW = Tile(rows=128, columns=64, depth=16, threads=(16, 8, 2), pairs=2, blocks_per_sm=2)
LOW = Tile(rows=64, columns=128, depth=16, threads=(32, 4, 2), pairs=2, blocks_per_sm=2)
SQUARE = Tile(rows=64, columns=64, depth=32, threads=(16, 4, 4), pairs=2, stages=2, blocks_per_sm=2)
"""A thread has 8 x 8 sums or, of the second to fourth, 8 x 16, which take half of its registers: it
reads a quarter of an element from shared memory for each product, or less."""

MEDIUM = Tile(rows=64, columns=64, depth=16, threads=(16, 16, 1))
SMALL = Tile(rows=32, columns=32, depth=32, threads=(16, 4, 4), pairs=2)
FLAT = Tile(rows=4, columns=128, depth=32, threads=(32, 1, 8))
TALL = Tile(rows=128, columns=4, depth=32, threads=(1, 32, 8))
SHORT = Tile(rows=4, columns=4, depth=512, threads=(2, 1, 64))
"""Threads of these have 4 x 4 sums: they read half an element from shared memory for each product.
"""

OF_WORDS = (LARGE, DEEP, WIDE, HIGH, BROAD, STEEP, NARROW, LOW, SQUARE, SMALL)
"""Tiles for sums of 4 bytes and more rows and columns than a few, the fastest for many first."""

FEW = 4
"""Rows, or columns, up to which a tile is flat, tall, or both."""
