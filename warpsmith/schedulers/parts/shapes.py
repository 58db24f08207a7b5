"""Shapes of blocks that keep rows of parts in registers: which there are, and how fast they are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Self

from warpsmith.schedulers.cover import full_passes
from warpsmith.schedulers.multiprocessor import (
    ENOUGH_BYTES,
    ENOUGH_WARPS,
    power_of_two_above,
    together,
)
from warpsmith.schedulers.outer_grid.shapes import share_of_lines
from warpsmith.schedulers.outer_persistent.shapes import (
    MOST_OF_ONE,
    PIECES,
    SECTOR_BYTES,
    share_of,
)
from warpsmith.schedulers.params import Params
from warpsmith.targets.family import WARP
from warpsmith.values import dataclass

THREADS = 512
"""Of a block, at most."""

MOST_COVERED = 1.15
"""Lanes of a block's warps, for each that is a thread."""

MOST_Z = 64
"""Threads of a block along z, as CUDA has them."""

MOST_ELEMENTS = 128
"""Elements of a row in one thread: all loops over them are unrolled."""

LEAST_BYTES, LEAST_ACROSS = 64, 128
"""That threads side by side read of a part, where it has so many; and where accesses begin between
the multiples of a sector: by 64 bytes forward norms of 13x13 and 17x17 pixels took 1.2 times as
long as by single elements (one H200, 2026-11-27)."""

ENDS_LOSS = 0.1
"""Of a time, where each access of a thread asks which of its elements are of the part: of several
the first and the last do. An estimate: 14x128x45x45 in one access took 1.11 times as long as in
four."""

MOST_SIDE_BY_SIDE = 32
"""Rows of a block."""

LEAST_SHARED = 2048
"""Elements of a row that blocks of a cluster share at least."""

NARROWEST, LINE_BYTES, MOST_LINES = 4, 128, 65536
"""Accesses of fewer bytes, each of a warp with a line of its own: of several inputs, with more
bytes of lines under way than that, norms backward of 16-bit images take as much longer (at 92 KB
47 % of the ceiling, at 63 KB 78 %; one H100, 2026-11-26)."""

MOST_HIDING = 2
ROUND_US, EXCHANGE_US = 2.0, 0.5
"""What a block takes besides moving bytes, halved where two blocks or more share a multiprocessor;
and what exchanges add to that for each doubling of a cluster's blocks. Estimates."""

L2_RATE = 1.7
"""Of the memory's rate, what the L2 gives: it holds sectors of which neighbours need the rest. An
estimate."""

START_US, EACH_ROUND_US = 4.85, 0.15
ACCESS_INSTRUCTIONS, ELEMENT_INSTRUCTIONS, SHARPNESS = 6.7, 20.3, 1.8
"""What a launch takes, with the first loads and the last stores, and each round of blocks; of each
access, and of each element; and of the maximum of what memory and instructions take. Fitted to 112
times of images by accesses of 2 to 16 bytes: 11 % off (root mean square; one H200, 2026-11-26)."""

FIXED_REGISTERS, CLUSTER_REGISTERS = 24, 6
"""Registers for addresses, predicates and exchanges with other blocks, besides two for each element
of a vector in work and two for each sum of a part. Found with NVRTC 13.0, as those below."""

ONE_INPUT, SEVERAL_INPUTS = 1.05, 1.4
"""Registers for each one that elements stay in: the compiler keeps some of what it makes of several
inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Sizes of a call, and bytes.

    Attributes:
        rows: how many there are.
        outer: elements of a row along what is the slower of parts and elements of a part.
        inner: the same along the faster.
        beside: rows of which the same parts lie side by side, where parts are the faster; else 1.
        loaded: bytes of inputs of full size, for each element.
        stored: bytes of outputs of full size, for each element.
        widest: bytes of the widest such element.
        inputs: how many inputs of full size there are.
        sums: how many reductions there are.
        apart: some are of parts.
        sms: multiprocessors that have blocks of clusters of that size.
        bytes_per_us: what a copy reads and writes.
        issues_per_us: instructions of warps that a multiprocessor issues.
    """

    rows: int
    outer: int
    inner: int
    beside: int
    loaded: int
    stored: int
    widest: int
    inputs: int
    sums: int
    apart: bool
    sms: int
    bytes_per_us: float
    issues_per_us: float

    @property
    def length(self) -> int:
        return self.outer * self.inner


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsParams(Params):
    """A schedule whose rows of parts stay in registers.

    Attributes:
        parts_inside: parts are told apart by the fastest dimension, else by one outside of theirs.
        vector: adjacent elements per thread and access.
        unroll: accesses of a thread along the faster of the two.
        passes: how often a thread goes along the slower.
        cluster: blocks that share a row; 1 where it is one block's.
        block_x: threads along the faster.
        block_y: rows of a block.
        block_z: threads along the slower.
        blocks_per_sm: blocks that a multiprocessor holds at once.
        exact: the threads' accesses are exactly a row's elements along the faster.
        full: accesses along it that all threads have, where they are not.
        exact_outer: threads are exactly what there is along the slower.
        full_outer: as `full`, of the slower.
        reload_weights: inputs that rows share are loaded when they are needed.
        again: costly values are computed again, where that takes fewer registers than to keep them.
        vectorized: names of the global tensors accessed in vectors.
        masked: the last pass of each level has a branch of its own, and no other pass a predicate.
        across: accesses begin at multiples of a vector in memory, wherever parts begin.
        shares_parts: blocks that share a row have some of each part, in place of some parts.
    """

    parts_inside: bool
    vector: int
    unroll: int
    passes: int
    cluster: int = 1
    block_x: int
    block_y: int = 1
    block_z: int = 1
    blocks_per_sm: int = 1
    exact: bool
    full: int = 0
    exact_outer: bool
    full_outer: int = 0
    reload_weights: bool = False
    again: bool = False
    vectorized: tuple[str, ...] = ()
    masked: bool = False
    across: bool = False
    shares_parts: bool = False

    @property
    def threads(self) -> int:
        return self.block_x * self.block_y * self.block_z

    @property
    def words(self) -> str:
        """The schedule in a few words."""
        said = ("late", self.reload_weights), ("again", self.again), ("across", self.across)
        marks = "".join(f" {mark}" for mark, has in said if has)
        return (
            f"{self.block_z}x{self.block_y}x{self.block_x} threads, "
            f"{self.passes}x{self.unroll}x{self.vector} elements, {self.blocks_per_sm} blocks, "
            f"cluster {self.cluster}{' of parts' if self.shares_parts else ''}{marks}"
        )

    @property
    def elements(self) -> int:
        """Of a thread."""
        return self.passes * self.unroll * self.vector

    def without_full_passes(self) -> Self:
        return self if self.masked else replace(self, full=0, full_outer=0)


def shapes(
    work: Work,
    vector: int,
    cluster: int,
    *,
    parts_inside: bool,
    across: bool = False,
    shares_parts: bool = False,
) -> Iterator[PartsParams]:
    """Those whose threads cover a row with few to spare."""
    apart, shared = (1, cluster) if shares_parts else (cluster, 1)
    if cluster > 1 and (work.length < LEAST_SHARED or work.outer < apart):
        return
    outer = -(-work.outer // apart)
    whole = -(-(work.inner + across * (vector - 1)) // vector)
    vectors, sure = -(-whole // shared), work.inner // vector if across else whole
    beside = LEAST_ACROSS if across else LEAST_BYTES
    least = min(vectors, max(1, beside // (vector * work.widest)))
    for block_x in _along(vectors, least):
        unroll = -(-vectors // block_x)
        for block_z in _across(outer):
            passes = -(-outer // block_z)
            for block_y in _rows(work, block_x * block_z):
                threads = block_x * block_y * block_z
                warps = -(-threads // 32)
                fits = warps * 32 <= min(THREADS, MOST_COVERED * threads)
                if not fits or passes * unroll * vector > MOST_ELEMENTS:
                    continue
                exact = shared * block_x * unroll == whole and not across
                yield PartsParams(
                    parts_inside=parts_inside,
                    vector=vector,
                    unroll=unroll,
                    passes=passes,
                    cluster=cluster,
                    block_x=block_x,
                    block_y=block_y,
                    block_z=block_z,
                    exact=exact,
                    full=0 if exact else full_passes(sure, block_x, unroll, shared),
                    exact_outer=apart * block_z * passes == work.outer,
                    full_outer=full_passes(work.outer, block_z, passes, apart),
                    across=across,
                    shares_parts=shares_parts,
                )


def _along(vectors: int, least: int) -> list[int]:
    """Threads along the faster dimension: powers of two, whole warps, or those that cover it."""
    usual = {min(power_of_two_above(vectors), 2**n) for n in range(10)}
    warps = {32 * -(-vectors // (32 * unroll)) for unroll in range(1, MOST_ELEMENTS + 1)}
    exact = {vectors // n for n in range(1, MOST_ELEMENTS + 1) if vectors % n == 0}
    return sorted(n for n in usual | warps | exact if least <= n <= THREADS)


def _across(outer: int) -> list[int]:
    """Threads along the slower."""
    most = min(MOST_Z, power_of_two_above(outer))
    usual = {2**n for n in range(7) if 2**n <= most}
    exact = {outer // n for n in range(1, MOST_ELEMENTS + 1) if outer % n == 0}
    return sorted(n for n in usual | exact if n <= MOST_Z)


def _rows(work: Work, threads: int) -> Iterator[int]:
    """Rows of a block: one, or some that lie side by side."""
    rows = 1
    while rows * threads <= THREADS and rows <= min(MOST_SIDE_BY_SIDE, work.rows):
        if work.beside == 1 or work.beside % rows == 0 or rows == 1:
            yield rows
        rows *= 2


def time_us(work: Work, shape: PartsParams, blocks_per_sm: int) -> float:
    """Predicted time, by which shapes are told apart: bytes over the rate that pieces so wide and
    multiprocessors so full reach, and what each round of blocks waits.
    """
    beside = _together(work, shape, blocks_per_sm)
    wait = ROUND_US + EXCHANGE_US * math.log2(shape.cluster)
    waits = _rounds(work, shape, blocks_per_sm) * wait / min(beside, MOST_HIDING)
    return _moving_us(work, shape, blocks_per_sm) + waits


def whole_us(work: Work, shape: PartsParams) -> float:
    """Predicted time, by which shapes are held against other schedulers: with the launch, and with
    what is issued beside what is moved.
    """
    blocks_per_sm = shape.blocks_per_sm
    rounds = _rounds(work, shape, blocks_per_sm)
    warps = _together(work, shape, blocks_per_sm) * shape.threads / WARP
    each = ACCESS_INSTRUCTIONS * (work.inputs + 1) + ELEMENT_INSTRUCTIONS * shape.vector
    issued = rounds * warps * shape.passes * shape.unroll * each / work.issues_per_us
    moving = _moving_us(work, shape, blocks_per_sm)
    return START_US + rounds * EACH_ROUND_US + together(SHARPNESS, moving, issued)


def _blocks(work: Work, shape: PartsParams) -> int:
    return shape.cluster * -(-work.rows // shape.block_y)


def _rounds(work: Work, shape: PartsParams, blocks_per_sm: int) -> int:
    """Of blocks, one behind the other."""
    return -(-_blocks(work, shape) // (blocks_per_sm * work.sms))


def _together(work: Work, shape: PartsParams, blocks_per_sm: int) -> int:
    """Blocks of the fullest multiprocessor."""
    return -(-min(_blocks(work, shape), blocks_per_sm * work.sms) // work.sms)


def _moving_us(work: Work, shape: PartsParams, blocks_per_sm: int) -> float:
    """Bytes over the rate that pieces so wide and multiprocessors so full reach."""
    at_once = min(_blocks(work, shape), blocks_per_sm * work.sms)
    each = work.loaded or work.widest
    held = at_once / work.sms * work.length * shape.block_y * each / shape.cluster
    alone = MOST_OF_ONE * min(at_once, work.sms) / work.sms
    warps, crowd = _together(work, shape, blocks_per_sm) * shape.threads / WARP, 1.0
    if shape.vector * work.widest < NARROWEST and work.inputs > 1:
        lines = warps * shape.passes * shape.unroll * work.inputs * LINE_BYTES
        held, crowd = max(held, lines), max(1.0, lines / MOST_LINES)
    share = _share(work, shape)
    busy = share * min(1.0, alone, held / ENOUGH_BYTES, warps / ENOUGH_WARPS) / crowd
    return work.length * work.rows * (work.loaded + work.stored) / work.bytes_per_us / busy


def _share(work: Work, shape: PartsParams) -> float:
    """Of the rate, what is left where blocks read pieces of rows of memory. Sums of parts cost more
    the wider pieces are, which the law of lines does not know.
    """
    part = work.inner * work.widest
    if shape.parts_inside and not work.apart:
        return share_of_lines(part * shape.block_y, part * work.beside)
    piece = PIECES[0][0]
    if shape.parts_inside and shape.block_y < work.beside:
        piece = part * shape.block_y
    share = share_of(piece)
    return min(share, L2_RATE * piece / SECTOR_BYTES)


def registers(work: Work, shape: PartsParams, size: int, beside: float, *, again: int) -> int:
    """Of a thread: what stays, the sums of its parts, a vector of floats, and the rest.

    Args:
        size: bytes that each element stays in.
        beside: bytes of other inputs that are there at the same time, for each element of a part.
        again: registers more, where costly values are computed again.
    """
    stay = shape.elements * size / 4 * (SEVERAL_INPUTS if work.inputs > 1 else ONE_INPUT)
    parts = shape.unroll * shape.vector if shape.parts_inside else shape.passes
    lanes = shape.vector if shape.across else work.sums * shape.vector
    results = 2 * (work.sums * parts if work.apart else lanes)
    shared = CLUSTER_REGISTERS if shape.cluster > 1 else 0
    needed = math.ceil(stay) + results + math.ceil(parts * beside / 4)
    return needed + 2 * shape.vector + shared + again + FIXED_REGISTERS
