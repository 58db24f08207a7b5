"""Shapes of blocks that keep columns in registers: which there are, their registers, their time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Self

from warpsmith.schedulers.cover import full_passes
from warpsmith.schedulers.multiprocessor import ENOUGH_WARPS, power_of_two_above
from warpsmith.schedulers.params import Params
from warpsmith.targets.family import Limits
from warpsmith.values import dataclass

FIXED_REGISTERS = 18
"""Registers for addresses and predicates, besides two for each element of a vector in work, one for
each of its columns' results and one for two accesses. Found with NVRTC 13.0, as those below
(tests/schedulers/test_outer_persistent.py)."""

LAST_GUARDED, ALL_GUARDED = (1.0, 1.4), (2.0, 4.0)
"""Registers for each one that elements stay in, of one input and of several: where the last access
has a predicate, and where all have."""

AGAIN_REGISTERS = 24
"""More of them where costly values are computed again, which the compiler does for several at
once."""

CLUSTER_REGISTERS = 12
"""Registers of a thread for exchanges with other blocks, besides one for two accesses."""

THREADS = (64, 128, 256, 512, 1024)
MOST_BLOCKS_PER_SM = 16
MOST_ELEMENTS = 256
"""Elements of columns in one thread: all loops over them are unrolled."""

FEW_ROWS = 16
"""Columns of up to so many elements may be one thread's."""

LEAST_ROWS = 128
"""Elements of a column that a block of a cluster has at least."""

SECTOR_BYTES = 32
"""Bytes of a row that memory gives at least; narrower pieces would be read twice."""

PIECES = ((128, 1.0), (64, 0.9), (SECTOR_BYTES, 0.7), (16, 0.5))
"""Bytes of a row that a block reads, and what is left of the rate where it reads so few: medians of
33 norms of images whose accesses need no predicates (one H100, 2026-11-26). Of fewer bytes as much
less: sectors come whole."""

COPY_SHARE = 0.889017
"""Of the memory's rate, what a copy reaches (one H200, 2026-11-21)."""

MOST_OF_ONE = 1.6
"""Of its share of the memory's rate, what one multiprocessor gets where others have no block. An
estimate."""

START_US = 5.4
"""What a kernel takes besides bytes and waits."""

FIRST_US, ROUND_US, MOST_HIDING = (2.0, 0.35), (2.8, 0.6), 1.7
"""What the first blocks wait for their loads, sums and stores, and what each doubling of a
cluster's blocks adds to that; the same of each round behind them, the less where two blocks or more
share a multiprocessor. Fitted to 175 times of 2 to 500 MB, of two choices for most images: 10 % off
(root mean square); the faster choice is predicted for 22 of 26 images (one H200, 2026-11-26)."""

APART_SHARE, APART_US = 0.93, 12.0
"""What two kernels reach of the copy rate, and what they take besides (one H100, 2026-11-26)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Sizes of a call, and bytes.

    Attributes:
        length: elements of a column.
        width: columns.
        loaded: bytes of inputs of full size, for each element.
        stored: bytes of outputs of full size, for each element.
        widest: bytes of the widest such element.
        inputs: how many inputs of full size there are.
        sums: how many reductions there are.
        sms: multiprocessors that have blocks of clusters of that size.
        bytes_per_us: what a copy reads and writes.
    """

    length: int
    width: int
    loaded: int
    stored: int
    widest: int
    inputs: int
    sums: int
    sms: int
    bytes_per_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterPersistentParams(Params):
    """A schedule whose columns stay in registers.

    Attributes:
        vector: adjacent columns per thread and access.
        unroll: accesses of a thread and input, one below the other, all issued before the first
            use.
        cluster: blocks that share columns; 1 where they are one block's.
        block_x: threads side by side.
        block_y: threads one below the other.
        blocks_per_sm: blocks that a multiprocessor holds at once.
        exact: the threads' accesses are exactly a column's elements, so that none needs a
            predicate for them.
        full: accesses of each thread that need none in any block, where others do.
        even: the blocks' columns are exactly all that there are, likewise.
        reload_weights: inputs that lack the reduced dimensions, or all kept ones, are loaded when
            they are needed, not at the start.
        again: costly values are computed again, where that takes fewer registers than to keep them.
        vectorized: names of the global tensors accessed in vectors.
        masked: the last access has a branch of its own, and no other a predicate.
    """

    vector: int
    unroll: int
    cluster: int
    block_x: int
    block_y: int
    blocks_per_sm: int = 1
    exact: bool
    even: bool
    reload_weights: bool = False
    again: bool = False
    vectorized: tuple[str, ...] = ()
    full: int = 0
    masked: bool = False

    @property
    def threads(self) -> int:
        return self.block_x * self.block_y

    @property
    def words(self) -> str:
        """The schedule in a few words."""
        marks = (" late" if self.reload_weights else "") + (" again" if self.again else "")
        return (
            f"{self.block_y}x{self.block_x} threads, {self.unroll}x{self.vector} elements, "
            f"{self.blocks_per_sm} blocks, cluster {self.cluster}{marks}"
        )

    @property
    def wide(self) -> int:
        """Columns of a block."""
        return self.block_x * self.vector

    def without_full_passes(self) -> Self:
        return self if self.masked else replace(self, full=0)


def shapes(work: Work, vector: int, cluster: int) -> Iterator[OuterPersistentParams]:
    """Those whose pieces of rows are whole sectors, 256 bytes at most, where rows are as long.

    Blocks have a number of threads that is usual, or one with which no access needs a predicate.
    """
    rows = -(-work.length // cluster)
    if cluster > 1 and rows < LEAST_ROWS:
        return
    all_columns = power_of_two_above(-(-work.width // vector))
    narrow, wide = (max(1, size // (vector * work.widest)) for size in (SECTOR_BYTES, 256))
    block_x = min(narrow, all_columns)
    while block_x <= min(wide, all_columns, THREADS[-1]):
        for block_y in sorted(_heights(rows, block_x)):
            unroll = -(-rows // block_y)
            if unroll * vector <= MOST_ELEMENTS:
                yield OuterPersistentParams(
                    vector=vector,
                    unroll=unroll,
                    cluster=cluster,
                    block_x=block_x,
                    block_y=block_y,
                    exact=cluster * unroll * block_y == work.length,
                    even=work.width % (block_x * vector) == 0,
                    full=full_passes(work.length, block_y, unroll, cluster),
                )
        block_x *= 2


def _heights(rows: int, block_x: int) -> set[int]:
    """Threads one below the other: whole warps, or one thread alone."""
    lanes = max(1, 32 // block_x)
    most = lanes * -(-rows // lanes)
    usual = {min(most, threads // block_x) for threads in THREADS if threads >= lanes * block_x}
    exact = {
        rows // unroll
        for unroll in range(1, min(rows, MOST_ELEMENTS) + 1)
        if rows % unroll == 0 and rows // unroll % lanes == 0
    }
    alone = {1} if rows <= FEW_ROWS else set()
    return {height for height in usual | exact | alone if height * block_x <= THREADS[-1]}


def time_us(work: Work, shape: OuterPersistentParams, blocks_per_sm: int) -> float:
    """Predicted time, `START_US` left out: bytes over the rate that pieces so wide and
    multiprocessors so full reach, and what each round of blocks waits.
    """
    blocks = shape.cluster * -(-work.width // shape.wide)
    at_once = min(blocks, blocks_per_sm * work.sms)
    together = -(-at_once // work.sms)
    piece = shape.wide * work.widest if shape.wide < work.width else PIECES[0][0]
    warps = together * max(1, shape.threads // 32)
    alone = MOST_OF_ONE * min(at_once, work.sms) / work.sms
    busy = share_of(piece) * min(1.0, alone, warps / ENOUGH_WARPS)
    moved = work.length * work.width * (work.loaded + work.stored) / work.bytes_per_us
    rounds = -(-blocks // (blocks_per_sm * work.sms))
    doubled = math.log2(shape.cluster)
    first, later = (us + exchange * doubled for us, exchange in (FIRST_US, ROUND_US))
    return moved / busy + first + (rounds - 1) * later / (MOST_HIDING if together > 1 else 1)


def share_of(piece: int) -> float:
    """What is left of memory's rate where blocks read pieces of so many bytes of each row."""
    least, share = next((pair for pair in PIECES if piece >= pair[0]), PIECES[-1])
    return share * min(1.0, piece / least)


def time_apart_us(work: Work) -> float:
    """Predicted time of a kernel that reduces and one that reads everything again."""
    moved = work.length * work.width * (2 * work.loaded + work.stored)
    return moved / (APART_SHARE * work.bytes_per_us) + APART_US


def registers(
    work: Work, shape: OuterPersistentParams, size: int, beside: int, passing: int, *, again: bool
) -> int:
    """Of a thread: what stays, results, a vector of floats being computed, and the rest.

    Where every access has a predicate, the compiler keeps widened values as well, and where the
    last one alone has, some of what it makes of several inputs.

    Args:
        size: bytes that each element stays in.
        beside: bytes of other inputs that are there at the same time, for each column.
        passing: bytes of late inputs along the columns, for each access; the compiler loads them
            early all the same.
        again: costly values are computed again.
    """
    stay = shape.unroll * shape.vector * size / 4
    if not (shape.exact and shape.even):
        one, several = LAST_GUARDED if shape.full else ALL_GUARDED
        stay *= one if work.inputs == 1 else several
    work_on = (2 + work.sums) * shape.vector + -(-shape.vector * beside // 4) + shape.unroll // 2
    special = shape.unroll * passing // 2 + (AGAIN_REGISTERS if again else 0)
    if shape.cluster > 1:
        special += CLUSTER_REGISTERS + shape.unroll // 2
    return math.ceil(stay) + work_on + special + FIXED_REGISTERS


def blocks_per_sm(registers_each: int, threads: int, limits: Limits) -> int:
    """Blocks that a multiprocessor has registers for."""
    return min(limits.blocks_of(registers_each, threads), MOST_BLOCKS_PER_SM)
