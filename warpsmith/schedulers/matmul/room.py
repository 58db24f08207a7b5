"""Shared memory of a block: stages for the operands, and chunks of what is beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from warpsmith.schedulers.matmul.memory import Beside
from warpsmith.schedulers.matmul.model import DEPTH_BYTES, SUM_BYTES
from warpsmith.targets.family import Limits

FEWEST_STAGES = 4
"""With fewer, products wait for loads."""

BARRIER_BYTES = 1024
"""Shared memory of a block that barriers and alignment take."""

MOST_STAGES = 16

CHUNKS = (64, 32, 16)
CHUNK_BYTES = 128
"""Columns that chunks of what is beside the operands may have, and the most bytes of them, which a
swizzle permutes."""

CHUNK_STAGES = 2
"""Of the pipelines that load and store chunks, at least: memory that no stage of the operands fits
into holds more that are loaded, so that those of a tile wait for nothing behind its product."""

FEW_CHUNKS, STORED_COLUMNS, STORED_STAGES = 2, 32, (3, 4)
"""Where a tile has more chunks than that, of at least so many columns, they are stored through more
stages, if operands have as many: threads wait for an earlier chunk's store than the last. Tiles of
128 x 256 take 51.8 us for 4096 x 4096 x 1024 with four stages of 32 columns, 52.8 with two of 64,
53.8 with two of 32; where a block has one tile, all take as long (an H100)."""

ONE_RESULT = Beside(staged=("",), out=2, widest=2)
"""One result of 16 bits, and nothing beside it."""


def loaded_columns(columns: int, size: int, *, turned: bool) -> int:
    """Columns that a stage holds of a tile, of elements of so many bytes.

    Where their operand lies along them, they come in pieces of `DEPTH_BYTES`, the last of which may
    reach into the next tile; narrow ones, and halves and quarters of a piece, as they are.
    """
    width = piece_of(columns, size)
    return -(-columns // width) * width if turned else columns


def piece_of(columns: int, size: int) -> int:
    """Columns of such a piece."""
    width = DEPTH_BYTES // size
    return columns if width % columns == 0 else width


@dataclass(frozen=True, slots=True)
class Room:
    """What shared memory holds of a tile.

    Attributes:
        tile: rows, and columns of all products, as `loaded_columns` says.
        limits: of the target.
        moved: what is loaded and stored in chunks.
        joined: columns that a block gets from all blocks with parts of k, of all tiles at a time.
        places: tiles that are staged at once, of groups that take turns.
        lines: as of the parameters.
        share: bytes that are loaded for each byte of the first operand.
        begun: rows of results begin inside sectors of memory, so that chunks share some: with 64
            columns stores of 37 products took 3 % less than with 32 (an H200, 2026-11-26).
    """

    tile: tuple[int, int]
    limits: Limits
    moved: Beside = ONE_RESULT
    joined: int = 0
    places: int = 1
    lines: int = 1
    share: float = 1
    begun: bool = False

    @property
    def stage(self) -> int:
        """Bytes of the operands in one stage."""
        rows, columns = self.tile
        return math.ceil(rows * self.share + columns) * self.lines * DEPTH_BYTES

    def left(self, chunk: int, stored: int) -> int:
        """Bytes for stages of the operands, beside the fewest of chunks that are loaded, and so
        many of those that are stored.
        """
        rows, moved = self.tile[0], self.moved
        chunks = CHUNK_STAGES * moved.size(rows, chunk, 0) if chunk else 0
        out = stored * self.places * rows * chunk * moved.out
        taken = BARRIER_BYTES + chunks + out + rows * self.joined * SUM_BYTES
        return self.limits.block_shared - taken

    def stages(self, chunk: int, stored: int = CHUNK_STAGES) -> int:
        """Stages for tiles of the operands."""
        return min(self.left(chunk, stored) // self.stage, MOST_STAGES)

    def best(self, columns: int, widest: int = CHUNKS[0]) -> tuple[int, int, int]:
        """Columns of a chunk, stages of those that are stored, and of the operands: the most
        columns that a swizzle permutes, or fewer, where operands would have too few stages or
        chunks are many.

        Args:
            columns: that a block stores of a tile; 0 where nothing moves in chunks.
            widest: a chunk.
        """
        fitting = (c for c in CHUNKS if columns % c == 0 and c * self.moved.widest <= CHUNK_BYTES)
        ways = [
            (chunk, stored, self.stages(chunk, stored))
            for chunk in (fitting if columns else (0,))
            for stored in self._stored(columns, chunk)
            if chunk <= widest
        ]

        def worth(way: tuple[int, int, int]) -> tuple[int, bool, int, int]:
            chunk, stored, ahead = way
            flows = self.begun or columns <= FEW_CHUNKS * chunk or stored > CHUNK_STAGES
            return min(ahead, FEWEST_STAGES), flows, chunk, stored

        return max(ways, key=worth, default=(0, 0, 0))

    def _stored(self, columns: int, chunk: int) -> tuple[int, ...]:
        """Stages of chunks that are stored, of which a tile of so many columns may have."""
        many = chunk >= STORED_COLUMNS and columns > FEW_CHUNKS * chunk and not self.moved.loaded
        ahead = self.stages(chunk)
        more = (s for s in STORED_STAGES if many and self.stages(chunk, s) == ahead)
        return CHUNK_STAGES, *more

    def loaded(self, columns: int, chunk: int, stored: int, ahead: int) -> int:
        """Stages of chunks that are loaded, of a tile of so many columns, where the operands have
        some ahead.
        """
        more = (self.left(chunk, stored) - ahead * self.stage) // self.moved.loaded_size(
            self.tile[0], chunk
        )
        return max(min(CHUNK_STAGES + more, columns // chunk), CHUNK_STAGES)
