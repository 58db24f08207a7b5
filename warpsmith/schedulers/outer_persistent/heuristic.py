"""Choice of columns a block, and of threads and accesses for them, where columns stay in registers.

A block that loads, reduces and stores waits in between, so what counts is how many bytes the blocks
of a multiprocessor hold together, how often blocks follow each other, and how wide the pieces of
rows are that a block reads. `_time` puts these together; the fastest shape is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from warpsmith.ir.domains import IterDomain
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.layout import InnerRun, find_inner_run
from warpsmith.schedulers.normalization.resident import Choice, full_size
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.can import reductions
from warpsmith.schedulers.reduction.heuristic import memory_ordered

REGISTERS_PER_SM = 65536
MOST_REGISTERS = 232
"""Registers that a thread may need by the count below, which errs by some twenty."""

FIXED_REGISTERS = 18
"""Registers for addresses and predicates, besides two for each element of a vector in work, one for
each of its columns' results and one for two accesses. Found with NVRTC 13.0, as those below
(tests/schedulers/test_outer_persistent_registers.py)."""

AGAIN_REGISTERS = 24
"""More of them where costly values are computed again, which the compiler does for several at
once."""

MOST_BLOCK_THREADS = 1024
MOST_BLOCKS_PER_SM = 16
MOST_ELEMENTS = 256
"""Elements of columns in one thread: all loops over them are unrolled."""

SECTOR_BYTES = 32
"""Bytes of a row that memory gives at least; narrower pieces would be read twice."""

PIECES = ((128, 1.0), (64, 0.95), (SECTOR_BYTES, 0.85), (0, 0.5))
"""Bytes of a row that a block reads, and what is left of the rate where it reads so few. An
estimate: DRAM gives 64 bytes at once, and pages open for neighbours."""

BYTES_PER_US = 4.28e6
"""Copy rate of an H200 (reference measurements of docs/benchmarks.md, 2026-11-21)."""

RESIDENT_BYTES = 49152
"""Bytes that a multiprocessor is to hold at once; see normalization/heuristic.py."""

ENOUGH_WARPS = 16
"""Warps of a multiprocessor from which on more of them hide no more."""

ROUND_US = 2.0
"""What a block takes besides moving bytes: latencies of its loads, reductions and stores. An
estimate, halved where two blocks share a multiprocessor, and so on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterPersistentParams:
    """A schedule whose columns stay in registers.

    Attributes:
        vector: adjacent columns per thread and access.
        unroll: accesses of a thread and input, one below the other, all issued before the first
            use.
        block_x: threads side by side.
        block_y: threads one below the other.
        blocks_per_sm: blocks that a multiprocessor holds at once.
        whole: the threads' accesses are exactly a column's elements, so that none needs a
            predicate for them.
        even: the blocks' columns are exactly all that there are, likewise.
        late: inputs that lack the reduced dimensions, or all kept ones, are loaded when they are
            needed, not at the start.
        again: costly values are computed again, where that takes fewer registers than to keep them.
        vectorized: names of the global tensors accessed in vectors.
    """

    vector: int
    unroll: int
    block_x: int
    block_y: int
    blocks_per_sm: int
    whole: bool
    even: bool
    late: bool
    again: bool
    vectorized: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What a fusion says of its columns.

    Attributes:
        axes: the dimensions in memory order.
        run: the fastest of them, which a vector may walk.
        loaded: bytes of inputs of full size, for each element.
        stored: bytes of outputs of full size, for each element.
        widest: bytes of the widest such element.
        aside: bytes of other inputs, for each column.
        sums: how many reductions there are.
    """

    axes: tuple[IterDomain, ...]
    run: InnerRun
    loaded: int
    stored: int
    widest: int
    aside: int
    sums: int


def columns_of(fusion: Fusion, domains: DomainMap, caches: tuple[Cached, ...]) -> Columns:
    """Of a fusion with caches."""
    axes = memory_ordered(domains, reductions(fusion)[0], caches)
    start = len(axes)
    while start and not axes[start - 1].is_reduction:
        start -= 1
    full = full_size(fusion, domains, caches)
    sizes = [(c.load, c.memory.dtype.size) for c in caches if id(c.register) in full]
    others = [c.memory.dtype.size for c in caches if c.load and id(c.register) not in full]
    return Columns(
        axes=axes,
        run=find_inner_run(domains, axes[start:], caches),
        loaded=sum(size for load, size in sizes if load),
        stored=sum(size for load, size in sizes if not load),
        widest=max((size for _, size in sizes), default=4),
        aside=sum(others),
        sums=len(reductions(fusion)),
    )


def misfit(columns: Columns, residents: tuple[Choice, ...], problem: Problem) -> str:
    """Why the columns of a call cannot stay in registers; empty where they can."""
    length, width = _sizes(columns, problem)
    if length == 0 or width == 0:
        return "its columns are empty"
    if _best(columns, residents, problem) is None:
        return f"columns of {length} elements do not fit in the registers of one block"
    return ""


def choose(
    columns: Columns, residents: tuple[Choice, ...], problem: Problem
) -> OuterPersistentParams:
    """The shape that takes the least time, as `_time` sees it."""
    params = _best(columns, residents, problem)
    assert params is not None, "misfit was not asked"
    return params


def _sizes(columns: Columns, problem: Problem) -> tuple[int, int]:
    """(elements of a column, columns)."""
    gone = math.prod(problem.size(a.extent) for a in columns.axes if a.is_reduction)
    return gone, math.prod(problem.size(a.extent) for a in columns.axes if not a.is_reduction)


def _best(
    columns: Columns, residents: tuple[Choice, ...], problem: Problem
) -> OuterPersistentParams | None:
    length, width = _sizes(columns, problem)
    best: tuple[tuple[float, ...], OuterPersistentParams] | None = None
    vector = columns.run.vector(problem)
    while vector:
        for number, choice in enumerate(residents):
            for late in (False, True) if columns.aside else (False,):
                for block_x, block_y, unroll in _shapes(length, -(-width // vector)):
                    even, whole = width % (block_x * vector) == 0, unroll * block_y == length
                    thread = _Thread(columns, choice, vector, late, not (even and whole))
                    blocks_per_sm = thread.blocks_per_sm(block_x * block_y, unroll)
                    if not thread.fits(unroll) or not blocks_per_sm:
                        continue
                    if not _whole_sectors(columns, block_x * vector, width):
                        continue
                    threads = block_x * block_y
                    time = _time(columns, block_x * vector, threads, blocks_per_sm, problem)
                    merit = (time, number + late, -vector, unroll * block_y, block_x * block_y)
                    if best is None or merit < best[0]:
                        best = (
                            merit,
                            OuterPersistentParams(
                                vector=vector,
                                unroll=unroll,
                                block_x=block_x,
                                block_y=block_y,
                                blocks_per_sm=blocks_per_sm,
                                whole=whole,
                                even=even,
                                late=late,
                                again=choice.again,
                                vectorized=columns.run.vectorized(problem, vector),
                            ),
                        )
        vector //= 2
    return None if best is None else best[1]


def _whole_sectors(columns: Columns, wide: int, width: int) -> bool:
    return wide >= width or wide * columns.widest >= SECTOR_BYTES


def _time(columns: Columns, wide: int, threads: int, blocks_per_sm: int, problem: Problem) -> float:
    """Predicted microseconds where a block has so many columns and threads."""
    length, width = _sizes(columns, problem)
    sms = problem.target.sm_count
    blocks = -(-width // wide)
    at_once = min(blocks, blocks_per_sm * sms)
    held = at_once / sms * length * wide * columns.loaded
    piece = wide * columns.widest if wide < width else max(share for share, _ in PIECES)
    share = next(share for least, share in PIECES if piece >= least)
    moved = length * width * (columns.loaded + columns.stored) / BYTES_PER_US
    rounds = -(-blocks // (blocks_per_sm * sms))
    together = -(-at_once // sms)
    warps = together * max(1, threads // 32)
    busy = share * min(1.0, held / RESIDENT_BYTES) * min(1.0, warps / ENOUGH_WARPS)
    return moved / busy + rounds * ROUND_US / together


def _shapes(length: int, vectors: int) -> Iterator[tuple[int, int, int]]:
    """(threads side by side, threads one below the other, accesses of each)."""
    block_x = 1
    while True:
        for unroll in range(1, min(length, MOST_ELEMENTS) + 1):
            block_y = -(-length // unroll)
            lanes = max(1, 32 // block_x)
            if block_y > 1:
                block_y = lanes * -(-block_y // lanes)
            if block_x * block_y <= MOST_BLOCK_THREADS:
                yield block_x, block_y, -(-length // block_y)
        if block_x >= min(vectors, 256):
            return
        block_x *= 2


@dataclass(frozen=True, slots=True)
class _Thread:
    """A thread's registers in one way to keep columns."""

    columns: Columns
    choice: Choice
    vector: int
    late: bool
    guarded: bool

    def registers(self, unroll: int) -> int:
        """What stays, results, a vector of floats being computed, and the rest.

        Under predicates, the compiler keeps widened values as well.
        """
        size = self.choice.bytes_per_element(max(1, 4 // self.vector))
        stay = -(-unroll * self.vector * size // 4)
        beside = -(-self.vector * (self.choice.passing if self.late else self.columns.aside) // 4)
        work = (2 + self.columns.sums) * self.vector + unroll // 2
        again = AGAIN_REGISTERS if self.choice.again else 0
        return (2 if self.guarded else 1) * stay + beside + work + again + FIXED_REGISTERS

    def fits(self, unroll: int) -> bool:
        small = self.registers(unroll) <= MOST_REGISTERS
        return small and unroll * self.vector <= MOST_ELEMENTS

    def blocks_per_sm(self, threads: int, unroll: int) -> int:
        """Blocks that a multiprocessor has registers for.

        It hands them out 8 a thread, and each of its quarters has its own for a quarter of the
        warps.
        """
        warp = 32 * 8 * -(-self.registers(unroll) // 8)
        warps = 4 * (REGISTERS_PER_SM // 4 // warp)
        return min(warps // -(-threads // 32), MOST_BLOCKS_PER_SM)
