"""Shapes of grids whose blocks keep columns: which there are, what they keep, their time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from warpsmith.schedulers.kept import TurnsParams, TurnsWork, fastest
from warpsmith.schedulers.outer_persistent.shapes import SECTOR_BYTES
from warpsmith.targets.family import WARP
from warpsmith.targets.target import Target
from warpsmith.values import dataclass

WIDEST_BYTES = 512
"""Of a row that a block reads, at most."""

BLOCKS = ((512, 1, 4), (512, 1, 2), (256, 2, 4), (256, 2, 2))
"""Threads of a block, blocks of a multiprocessor, accesses of a thread in a turn. With eight of
them kernels spill, and 1024 threads have too few registers; 256 threads alone are a fifth slower.
"""

FIXED_REGISTERS, STATES_HELD = 40, 3
"""Registers for addresses and what is one for all rows, and for each one of what is reduced. An
estimate: kernels of two sums, and of means and variances, spill at most 16 bytes with 128."""

RESERVED = 1024
"""Bytes of shared memory that are left beside turns and what is reduced."""

LINE_BYTES = 128

MEMORY_SHARE, LINES_POWER = 0.83, 0.39
"""Of the memory's rate, what blocks reach that read and write whole lines; and the power of the
share of its lines that a block wants by which others are slower. As the constants below, fitted to
76 times of norms of 2 to 170 MB: 5 % off (root mean square; one H200, 2026-11-26); the first is
0.03 more than that since blocks ask the L2 for turns ahead (0.96 of the times of 15 norms)."""

FLIGHT_BYTES, FLIGHT_POWER = 32768, 0.22
"""Bytes of a turn on a multiprocessor below which its loads are slower, and by which power."""

ROUND_US = 4.0
"""What each round but the first takes besides its bytes. Of 48 norms of one H200 (2026-11-26) the
choice loses 0.8 % by it, and 1.4 by 3."""

FIXED_US = 7.6
"""What a launch, the first loads, a meeting and the last stores take."""

MOMENTS_US, LANES_US = 0.86, 0.44
"""What means and variances take besides; and that for the square of the exchanges between lanes of
a warp, by which these join their triples."""

GAIN = 0.95
"""Blocks of a grid keep columns where that makes the predicted time shorter than this share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterGridParams(TurnsParams):
    """A schedule whose columns stay with the blocks of a grid.

    Attributes:
        block_y: threads one below the other.
        even: the blocks' columns are exactly all that there are.
    """

    block_y: int
    even: bool

    @property
    def said(self) -> str:
        return f" by {self.block_y}"


Found = tuple[float, OuterGridParams]
"""A shape behind its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work(TurnsWork):
    """Sizes of a call, and bytes.

    Attributes:
        length: elements of a column.
        width: columns.
        run: columns that lie side by side.
        widest: bytes of the widest element.
    """

    length: int
    width: int
    run: int
    widest: int


@dataclass(frozen=True, slots=True)
class Grid:
    """The blocks of a shape in a call.

    Attributes:
        groups: of blocks that share columns, which run at once.
        splits: blocks of a group.
        turns: of a block in a round, the last one counted.
        rounds: of groups.
    """

    groups: int
    splits: int
    turns: int
    rounds: int = 1

    @property
    def blocks(self) -> int:
        return self.groups * self.splits


def grid_of(work: Work, params: OuterGridParams, target: Target) -> Grid:
    """As many blocks as run at once, in equal groups, with a turn each at least; in rounds as many
    groups as keep all of their columns, where one does.
    """
    groups = -(-work.width // (params.block_x * params.vector))
    passes = -(-work.length // (params.block_y * params.unroll))
    blocks, rounds = target.sm_count * params.blocks_per_sm, 1
    if params.rounds:
        least = -(-passes // (params.kept + 1))
        rounds = -(-groups // min(groups, max(1, blocks // least)))
    groups = -(-groups // rounds)
    share = -(-passes // max(1, min(blocks // groups, passes)))
    return Grid(groups, -(-passes // share), share, rounds)


def best(work: Work, vector: int, target: Target) -> Found | None:
    """The shape that takes the least time; None where no blocks that run at once can share the
    columns.
    """
    return fastest(timed(work, vector, target))


def timed(work: Work, vector: int, target: Target) -> Iterator[Found]:
    """All shapes behind their times."""
    return ((time_us(work, shape, target), shape) for shape in shapes(work, vector, target))


def shapes(work: Work, vector: int, target: Target) -> Iterator[OuterGridParams]:
    """Those whose blocks run at once, with all the shared memory that there is; none of columns
    that no input has, as those that are read at computed places.
    """
    if not work.loaded:
        return
    limits = target.family.limits
    vectors = -(-work.run // vector)
    for block_x in _widths(vectors, vector * work.widest):
        groups = -(-work.width // (block_x * vector))
        for threads, blocks_per_sm, unroll in BLOCKS:
            block_y = _height(threads, block_x)
            room = limits.registers_each(threads * blocks_per_sm)
            if not block_y:
                continue
            if registers_of(work, vector, unroll) > room:
                continue
            scratch = block_x * block_y * vector * work.states
            if block_x & (block_x - 1) == 0:
                scratch //= max(1, WARP // block_x)
            whole = limits.sm_shared // blocks_per_sm - limits.shared_taken
            room = min(limits.block_shared, whole) - scratch - RESERVED
            turn = block_x * block_y * vector * unroll * work.loaded
            shape = OuterGridParams(
                vector=vector,
                unroll=unroll,
                block_x=block_x,
                block_y=block_y,
                blocks_per_sm=blocks_per_sm,
                kept=max(0, room // turn),
                even=work.run % (block_x * vector) == 0,
            )
            if groups <= target.sm_count * blocks_per_sm:
                yield shape
            in_rounds = replace(shape, rounds=True)
            if grid_of(work, in_rounds, target).rounds > 1:
                yield in_rounds


def registers_of(work: TurnsWork, vector: int, unroll: int) -> int:
    """Of a thread: a turn, what it has reduced, twice as much while it joins that, and the rest."""
    return vector * (unroll * work.loaded + STATES_HELD * work.states) // 4 + FIXED_REGISTERS


def _widths(vectors: int, access: int) -> Iterator[int]:
    """Threads side by side: powers of two, and what divides the columns' vectors."""
    least, most = max(1, SECTOR_BYTES // access), max(1, WIDEST_BYTES // access)
    for lanes in range(min(least, vectors), min(most, vectors) + 1):
        if vectors % lanes == 0 or lanes & (lanes - 1) == 0:
            yield lanes


def _height(threads: int, block_x: int) -> int:
    """Threads one below the other: whole warps."""
    height = threads // block_x
    return height - height % (WARP // math.gcd(WARP, block_x))


def time_us(work: Work, params: OuterGridParams, target: Target) -> float:
    """Predicted time, launch included: bytes over the rate of lines so full and turns so large, and
    what blocks exchange.
    """
    grid = grid_of(work, params, target)
    wide, rows = params.block_x * params.vector, params.block_y * params.unroll
    covered = grid.rounds * grid.blocks * rows * wide
    loaded = covered * grid.turns * work.loaded
    kept = covered * min(grid.turns, params.kept + 1) * work.loaded
    moved = loaded + max(0, loaded - kept) + work.length * work.width * work.stored
    busy = min(1.0, grid.blocks / (params.blocks_per_sm * target.sm_count))
    flight = rows * wide * work.loaded * params.blocks_per_sm * busy
    slow: float = min(1.0, flight / FLIGHT_BYTES) ** FLIGHT_POWER
    piece, row = wide * work.widest, work.run * work.widest
    lines = share_of_lines(piece, row)
    if grid.rounds > 1:
        lines = min(lines, whole_lines(min(row, grid.groups * piece), row))
    rate: float = MEMORY_SHARE * target.rates.memory * busy * slow * lines
    exchanged = grid.splits * work.states * wide * grid.blocks
    meeting = ROUND_US if grid.splits > 1 else 0.0
    fixed = FIXED_US + (grid.rounds - 1) * meeting + grid.rounds * _joins(work, params)
    return fixed + moved / rate + grid.rounds * exchanged / target.rates.l2


def _joins(work: Work, params: OuterGridParams) -> float:
    """Microseconds of joining triples, where moments are reduced."""
    if not work.moments:
        return 0.0
    narrow = params.block_x < WARP and params.block_x & (params.block_x - 1) == 0
    return MOMENTS_US + LANES_US * (math.log2(WARP / params.block_x) ** 2 if narrow else 0)


def share_of_lines(piece: int, row: int) -> float:
    """Of the memory's rate, what blocks reach that read so many bytes of rows so long in memory."""
    if piece >= row:
        return 1.0
    share: float = whole_lines(piece, row) ** LINES_POWER
    return share


def whole_lines(piece: int, row: int) -> float:
    """The share that pieces so long are of the lines in which they lie. What other blocks want of
    these the L2 has; in another round it is read again.
    """
    at_odds = 1 - math.gcd(LINE_BYTES, piece, row) / LINE_BYTES if piece < row else 0.0
    return piece / (piece + LINE_BYTES * at_odds)
