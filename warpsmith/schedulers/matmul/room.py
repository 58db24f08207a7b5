"""Shared memory of a block: stages for the operands, and chunks of what is beside them."""

from __future__ import annotations

import numpy as np

from warpsmith.schedulers.matmul.memory import MATRIX_BYTES, Beside
from warpsmith.schedulers.matmul.model import SUM_BYTES
from warpsmith.schedulers.matmul.params import STORED, Count, Numbers
from warpsmith.schedulers.matmul.sectors import DEPTH_BYTES
from warpsmith.targets.family import Limits
from warpsmith.values import dataclass

FEWEST_STAGES = 4
"""With fewer, products wait for loads."""

FEWEST_HIGH = 3
"""The same of tiles of 256 rows, whose steps take longer than a load is on its way."""

BARRIER_BYTES = 1024
"""Shared memory of a block that barriers and alignment take."""

MOST_STAGES = 16

CHUNKS = (64, 32, 16)
CHUNK_BYTES = 128
"""Columns that chunks of what is beside the operands may have, and the most bytes of them, which a
swizzle permutes."""

ODD_CHUNKS = (136, 120, 104, 88, 72, 56, 40, 24)
"""Those of results of 16 bits whose tiles have an odd number of eight columns: rows of as many
times 16 bytes need no swizzle, for eight of them, which `stmatrix` writes, meet no bank twice."""

TURNED_CHUNKS = (*CHUNKS, *ODD_CHUNKS, 48, 8)
LEAST_TURNED = 16
"""Columns of results that are turned on their way, each of which is a row in shared memory; and the
fewest of a tile for which that is worth it."""

SWIZZLED = 8
"""Rows of 128 bytes behind which the pattern of a swizzle begins again."""

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


def shared_by(blocks: Count, columns: Count, *, turned: bool) -> Numbers:
    """Blocks of a cluster that load a tile of so many columns for each other: all of so many, or
    each by itself, where parts of it would not begin as a swizzle does, with each eighth column.
    """
    whole = np.asarray(columns) % (SWIZZLED * blocks) == 0
    return np.where(turned | whole, blocks, 1)


@dataclass(frozen=True, slots=True)
class Room:
    """What shared memory holds of a tile, or of many: numbers may be columns of them.

    Attributes:
        tile: rows, and columns of all products, as `loaded_columns` says.
        limits: of the target.
        moved: what is loaded and stored in chunks.
        joined: columns that a block gets from all blocks with parts of k, of all tiles at a time.
        places: tiles that are staged at once, of groups that take turns.
        lines: as of the parameters.
        share: bytes that are loaded for each byte of the first operand.
        scales: bytes of the pipeline that brings them, where they differ along k.
        turned: columns of a tile are rows of the results, which are all that moves in chunks.
        begun: rows of results begin inside sectors of memory, so that chunks share some: with 64
            columns stores of 37 products took 3 % less than with 32 (an H200, 2026-11-26).
    """

    tile: tuple[Count, Count]
    limits: Limits
    moved: Beside = ONE_RESULT
    joined: Count = 0
    places: Count = 1
    lines: Count = 1
    share: float = 1
    scales: Count = 0
    turned: bool = False
    begun: bool = False

    @property
    def stage(self) -> Numbers:
        """Bytes of the operands in one stage."""
        rows, columns = self.tile
        held = np.ceil(rows * self.share).astype(np.int64) + columns
        return np.asarray(held * self.lines * DEPTH_BYTES)

    def left(self, chunk: Count, stored: Count) -> Numbers:
        """Bytes for stages of the operands, beside the fewest of chunks that are loaded, and so
        many of those that are stored.
        """
        rows, moved = self.tile[0], self.moved
        chunks = np.where(chunk, CHUNK_STAGES * moved.size(rows, chunk, 0), 0)
        out = stored * self.places * rows * chunk * moved.out
        taken = BARRIER_BYTES + chunks + out + rows * self.joined * SUM_BYTES + self.scales
        return np.asarray(self.limits.block_shared - taken)

    def stages(self, chunk: Count, stored: Count = CHUNK_STAGES) -> Numbers:
        """Stages for tiles of the operands."""
        return np.asarray(np.minimum(self.left(chunk, stored) // self.stage, MOST_STAGES))

    def best(self, columns: Count) -> tuple[Numbers, Numbers, Numbers]:
        """Columns of a chunk, stages of those that are stored, and of the operands: the most
        columns that a swizzle permutes, or fewer, where operands would have too few stages or
        chunks are many.

        Args:
            columns: that a block stores of a tile; 0 where nothing moves in chunks.
        """
        fitting = [c for c in CHUNKS if c * self.moved.widest <= CHUNK_BYTES]
        if self.turned:
            fitting = list(TURNED_CHUNKS)
        elif self.moved.widest == MATRIX_BYTES and not self.moved.loaded:
            fitting += ODD_CHUNKS
        best: list[Numbers] = [np.zeros_like(columns)] * 4
        for chunk in (*fitting, 0):
            ahead, many = self.stages(chunk), np.asarray(columns > FEW_CHUNKS * chunk)
            whole = (columns % (chunk or 1) == 0) & ((columns > 0) == (chunk > 0))
            if chunk in ODD_CHUNKS and not self.turned:
                whole = whole & (columns % STORED > 0)
            more = STORED_STAGES if chunk >= STORED_COLUMNS and not self.moved.loaded else ()
            for stored in (CHUNK_STAGES, *more):
                fits = whole
                if stored > CHUNK_STAGES:
                    fits = fits & many & (self.stages(chunk, stored) == ahead)
                flows = ~many | self.begun | (stored > CHUNK_STAGES)
                worth = np.minimum(ahead, FEWEST_STAGES)
                for each, most in ((flows, 1), (chunk, ODD_CHUNKS[0]), (stored, STORED_STAGES[-1])):
                    worth = worth * (most + 1) + each  # what is compared first counts most
                found: list[Count] = [worth, chunk, stored, ahead]
                better = fits & (worth > best[0])
                best = [np.where(better, a, b) for a, b in zip(found, best, strict=True)]
        return best[1], best[2], best[3]

    def at_once(self, columns: Count) -> tuple[Numbers, Numbers]:
        """Columns of a chunk, and stages of the operands, where one stage holds all chunks of a
        tile; both 0 where none can.

        Args:
            columns: as of `best`.
        """
        chunk = CHUNK_BYTES // max(self.moved.widest, 1)
        fits = (columns > 0) & (columns % chunk == 0) & bool(self.moved.out)
        ahead = self.stages(chunk, columns // chunk)
        return np.where(fits, chunk, 0), np.where(fits, ahead, 0)

    def loaded(self, columns: Count, chunk: Numbers, stored: Numbers, ahead: Numbers) -> Numbers:
        """Stages of chunks that are loaded, of a tile of so many columns, where the operands have
        some ahead.
        """
        size = self.moved.loaded_size(self.tile[0], chunk)
        more = (self.left(chunk, stored) - ahead * self.stage) // np.maximum(size, 1)
        most = np.minimum(CHUNK_STAGES + more, columns // np.maximum(chunk, 1))
        return np.asarray(np.maximum(most, CHUNK_STAGES))
