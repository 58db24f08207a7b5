"""How long a product takes that threads or single warps multiply, roughly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod

from warpsmith.ir.atoms import atoms_for
from warpsmith.ir.exprs import Matmul
from warpsmith.schedulers.matmul.memory import unfit_rows
from warpsmith.schedulers.matmul.model import START_US
from warpsmith.schedulers.matmul.shape import memory_of, shape_of
from warpsmith.schedulers.matmul_by_threads.tiles import FEW, OF_WORDS, Reads, Tile
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.traffic import MEMORY_SHARE
from warpsmith.targets.atoms import FLOAT_RATE, Atom, Unit
from warpsmith.targets.family import WARP
from warpsmith.targets.target import Target

SHARE = 0.299
"""Of the rate of an instruction, what products reach: measured of floats by threads (one H200,
2026-11), and assumed of `mma.sync`, which nobody has timed."""

LINE_BYTES = 128
"""Of k, in a line of a warp's tile."""

VECTOR, SUM_BYTES = 4, 4
"""Of tiles of words: elements that a thread reads from shared memory at once, bytes of a sum."""

BLOCKS_PER_SM, FEWEST_TURNS = 2, 4
"""Blocks that a multiprocessor is given, at most, where blocks share results, and holds where no
tile says so; tiles that each of those which share has to multiply, at least."""

TILE, SMALL_TILE = 64, 32
"""Rows and columns that warps multiply in any case, and where there are no more of one."""

ALONE = 36
"""Instructions of a thread for an element of a warp's tile that it copies, or stores, alone: of
five products of 7,221 and 18,048 batches of 9 to 64 rows and columns (one H200, 2026-11-28)."""


def sizes_of(product: Matmul, problem: Problem) -> tuple[int, int, int, int]:
    """Batches, rows, columns, and elements that are summed for each result."""
    sizes = [problem.size(axis.extent) for axis in product.output.root]
    shape = shape_of(product)
    walked = (shape.batches, shape.rows, shape.columns)
    batches, m, n = (prod(sizes[place] for place in places) for places in walked)
    return batches, m, n, sizes[-1]


def predicted_us(sizes: Sequence[int], target: Target, atom: Atom, moved: int = 0) -> float:
    """Microseconds of a product of sizes (batches, m, n, k) by one kind of instruction, whose
    operands have so many bytes.
    """
    batches, m, n, k = sizes
    if atom.unit is not Unit.FMA:
        m, n = (-(-extent // TILE) * TILE for extent in (m, n))
    reached = SHARE * target.rates.fma * atom.rate / FLOAT_RATE
    memory = moved / (MEMORY_SHARE * target.rates.memory)
    return START_US + max(2 * batches * m * n * k / reached, memory)


def product_us(product: Matmul, problem: Problem) -> float:
    """Microseconds of a product by the instruction that this scheduler takes for it."""
    sizes = sizes_of(product, problem)
    atoms = [a for a in atoms_for(product, problem.target.family.atoms) if a.unit is not Unit.WGMMA]
    few = min(sizes[1:3]) <= FEW
    atom = next(a for a in atoms if a.unit is Unit.FMA or not few)
    moved = sum(map(problem.bytes_of, product.operands))
    if atom.unit is Unit.MMA:
        alone = START_US + _alone_us(product, sizes, atom, problem)
        return max(alone, predicted_us(sizes, problem.target, atom, moved))
    if atom.unit is Unit.FMA and not few and product.output.dtype.size == SUM_BYTES:
        memory = predicted_us((0, 0, 0, 0), problem.target, atom, moved)
        return max(memory, min(shared_us(tile, sizes, problem.target)[1] for tile in OF_WORDS))
    return predicted_us(sizes, problem.target, atom, moved)


def _alone_us(product: Matmul, sizes: Sequence[int], atom: Atom, problem: Problem) -> float:
    """Microseconds in which threads store the elements of warps' tiles, and copy those of operands
    whose rows do not begin at multiples of 16 bytes.
    """
    batches, m, n, k = sizes
    edge = SMALL_TILE if min(m, n) <= SMALL_TILE else TILE
    depth = LINE_BYTES // atom.size
    copied = sum(bool(unfit_rows(memory_of(each), problem)) for each in product.operands)
    elements = edge * edge + copied * edge * -(-k // depth) * depth
    tiles = batches * -(-m // edge) * -(-n // edge)
    held = -(-tiles // problem.target.sm_count)
    return held * elements * ALONE / (WARP * problem.target.sm_issues)


REACHED, WAITS, SUMS = 0.913, 0.543, 64
"""Of the rate of the sheet, what multiply-adds reach that wait for nothing; and of their time, what
a scheduler waits that has one warp, whose threads have so many sums each: less with more of these,
by their root, and with more warps, by their number and its root."""

READ_STEPS, TURN_STEPS = 1.36, 57.7
"""Multiply-adds whose time a read from shared memory takes; instructions of a turn besides."""

MEETING, SINGLY = 0.052, 11.5
"""Of the time of multiply-adds at that rate, what it takes besides where elements are copied one at
a time: in any case, and for each of those that one of a tile's multiply-adds needs."""

LINES = 0.084
"""The same where both operands lie along k: a multiply-add then finds them in one bank of registers
as often as not."""

BLOCK_US, JOIN_US = 1.35, 4.29
"""What a block takes before its first product and behind its last one, and a shared result."""

WRITTEN, JOINED = 3e6, 0.15e6
"""Bytes that all blocks write of shared results in a microsecond, and one block adds up.

These numbers are of floats by threads, fitted to 48 sizes with up to 8 tiles each (one H100,
2026-11-26)."""


def shared_us(
    tile: Tile, sizes: Sequence[int], target: Target, reads: Sequence[Reads] = ()
) -> tuple[int, float]:
    """How many blocks share a result, and the microseconds of a product of sizes (batches, m, n, k)
    by a tile: as many as are fastest of tiles of words, of others as many as there is room for.
    """
    batches, m, n, k = sizes
    turns = -(-k // tile.depth)
    tiles = batches * -(-m // tile.rows) * -(-n // tile.columns)
    most = max(min(BLOCKS_PER_SM * target.sm_count // max(tiles, 1), turns // FEWEST_TURNS), 1)
    if tile.pairs == 1:  # none of `OF_WORDS`
        return most, 0.0
    counts = range(1, most + 1)
    us, count = min((tile_us(tile, tiles, turns, count, target, reads), count) for count in counts)
    return count, us


def tile_us(
    tile: Tile, tiles: int, turns: int, shared: int, target: Target, reads: Sequence[Reads] = ()
) -> float:
    """Microseconds of so many tiles of floats, of so many turns each, which `shared` blocks have.

    The multiprocessor with the most blocks has them at once, as far as it holds them.
    """
    blocks = tiles * shared
    held, at_once = -(-blocks // target.sm_count), tile.blocks_per_sm or BLOCKS_PER_SM
    rounds, rest = divmod(held, at_once)
    rows, columns = tile.sums
    depth = tile.depth // tile.threads[2]
    each = rows * columns * depth
    steps = 1 + (READ_STEPS * (rows + columns) * depth / VECTOR + TURN_STEPS) / each
    edges = zip(reads, (tile.rows, tile.columns), strict=False)
    singly = sum(edge for read, edge in edges if read.singly)
    copies = (MEETING + SINGLY * singly / (tile.rows * tile.columns)) if singly else 0.0
    copies += LINES * (len(reads) > 1 and all(read.lines for read in reads))
    work = 2 * tile.rows * tile.columns * tile.depth * -(-turns // shared)
    alone = work * target.sm_count / target.rates.fma

    def busy(count: int) -> float:
        warps = count * tile.warps / target.family.limits.partitions
        waits = WAITS * math.sqrt(SUMS / (rows * columns)) / (warps * math.sqrt(warps))
        return count * alone * (steps / REACHED * (1 + waits) + copies) + BLOCK_US

    us = rounds * busy(at_once) + (busy(rest) if rest else 0.0)
    parts = shared * tile.rows * tile.columns * SUM_BYTES
    joined = JOIN_US + tiles * parts / WRITTEN + parts / JOINED
    return START_US + us + (joined if shared > 1 else 0.0)
