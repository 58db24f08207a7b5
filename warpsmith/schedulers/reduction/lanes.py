"""Threads for rows of few vectors, and rows of a thread: few instructions that keep memory busy.

A row of 19 accesses has 8 threads with 3 each sooner than 32 with one, of which 13 have none: a
thread asks for more at once, and fewer join. Rows of several inputs that a block takes in one pass
are waited for once, and are not split over blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warpsmith.ir.exprs import Reduction
from warpsmith.ir.levels import has_levels
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.program import Program
from warpsmith.ir.scalar import Apply
from warpsmith.schedulers.multiprocessor import power_of_two_above
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.aside import walks_reduced
from warpsmith.schedulers.reduction.shape import Shape
from warpsmith.schedulers.reduction.tall import ON_THE_WAY
from warpsmith.schedulers.traffic import ISSUE_SHARE, MEMORY_SHARE, instructions
from warpsmith.targets.family import WARP
from warpsmith.targets.target import Target
from warpsmith.values import dataclass

MOST_VECTORS = 256
"""Of rows of one input that are taken so: a thread of a warp has eight of them."""

MANY, STAND_FOR = 64, {True: 8192, False: 16}
"""Rows of a multiprocessor from which on they are many; and of one that has many, or few, by which
blocks are chosen: so a new number of rows compiles nothing, but on the other side of that."""

MOST_LANES, MOST_UNROLL, MOST_OF_ROWS = 512, 8, 16
"""Threads of a row; accesses of each, of one input; and of one that has several rows, of all."""

MOST_WORDS = 40
"""Registers of what a thread has asked for, of the 64 that `RESIDENT` threads have."""

THREADS, LEAST_THREADS, RESIDENT = 256, 128, 1024
"""Of a block, of one where there are few of them, and of a multiprocessor: as many as have 64
registers each."""

ENOUGH = 2 * ON_THE_WAY
"""Bytes that a multiprocessor is to ask for: rows end, and the next ones begin, all the time."""

SECTOR, LINE = 32, 128
"""Bytes that the lanes of a row ask for together, where the row has them: at least, and among
equals."""

ACCESS, JOIN, MEETING = 4, 3, 64
"""Instructions of a thread for an access, for each value that lanes join, and for warps to meet."""

DEPENDENT = 4
"""Cycles from one instruction of a thread to the next, which nothing hides where rows are few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortRows:
    """Rows that are reduced.

    Attributes:
        many: whether there are rows enough to fill multiprocessors several times.
        vectors: accesses of a row of each input.
        vector: elements of an access.
        sizes: bytes of an element of each input.
        computed: instructions for an element.
        states: values that are joined of a row.
    """

    many: bool
    vectors: int
    vector: int
    sizes: tuple[int, ...]
    computed: int
    states: int

    @property
    def bytes_of_access(self) -> int:
        """Of one in all inputs."""
        return self.vector * sum(self.sizes)

    @property
    def is_short(self) -> bool:
        """Whether blocks are chosen so."""
        return self.vectors <= MOST_VECTORS or len(self.sizes) > 1


def few_vectors(
    fusion: Program,
    domains: DomainMap,
    shape: Shape,
    problem: Problem,
    vector: int,
    sizes: Sequence[int],
) -> tuple[int, int, int, int] | None:
    """(block_x, block_y, unroll, rows_per_thread) of short rows; None of others.

    Args:
        vector: elements of an access.
        sizes: bytes of an element of each input that is accessed so.
    """
    length = problem.size(shape.reduced)
    if any(map(has_levels, fusion.operations)) or not sizes or length == 0:
        return None
    walks = walks_reduced(fusion, domains)
    reduced = [op for op in fusion.operations if isinstance(op, Reduction)]
    computed = sum(map(instructions, (op for op in fusion.operations if op.outputs[0] in walks)))
    joined = sum(isinstance(n, Apply) for op in reduced for e in op.carry.join for n in e.walk())
    short = ShortRows(
        many=problem.size(shape.kept) >= MANY * problem.target.sm_count,
        vectors=-(-length // vector),
        vector=vector,
        sizes=tuple(sizes),
        computed=computed + joined,
        states=sum(len(op.outputs) for op in reduced),
    )
    return block_of(short, problem.target) if short.is_short else None


def block_of(short: ShortRows, target: Target) -> tuple[int, int, int, int] | None:
    """(block_x, block_y, unroll, rows_per_thread); None where a row takes several passes.

    Among equals lanes ask for a line together, and threads for no more than is enough.
    """
    access = short.vector * max(short.sizes)

    def merit(way: tuple[int, int, int]) -> tuple[float, ...]:
        lanes, unroll, rows = way
        asked = unroll * rows * short.bytes_of_access
        us = float(f"{_us(short, way, target):.1e}")
        return us, -min(LINE, lanes * access), max(ENOUGH // RESIDENT, asked), lanes

    best = min(_ways(short), key=merit, default=None)
    if best is None:
        return None
    lanes, unroll, rows = best
    threads = THREADS if short.many else LEAST_THREADS
    return lanes, max(1, threads // lanes), unroll, rows


def _ways(short: ShortRows) -> Iterator[tuple[int, int, int]]:
    lanes, inputs = 1, len(short.sizes)
    access = short.vector * max(short.sizes)
    words = sum(max(1, short.vector * size // 4) for size in short.sizes)
    while lanes <= min(MOST_LANES, power_of_two_above(short.vectors)):
        unroll = -(-short.vectors // lanes)
        whole = lanes * access >= SECTOR or lanes >= short.vectors
        if whole and unroll <= MOST_UNROLL and unroll * words <= MOST_WORDS:
            rows, several = 1, short.many and lanes <= WARP
            while rows == 1 or (several and rows * unroll * inputs <= MOST_OF_ROWS):
                yield lanes, unroll, rows
                rows *= 2
        lanes *= 2


def _us(short: ShortRows, way: tuple[int, int, int], target: Target) -> float:
    """Microseconds that it takes: memory waits where too little is asked for at once."""
    lanes, unroll, rows = way
    asked = unroll * rows * short.bytes_of_access
    each = STAND_FOR[short.many]
    threads = min(RESIDENT, each * lanes // rows)
    moved = each * target.sm_count * short.vectors * short.bytes_of_access
    steps = lanes.bit_length() - 1
    of_access = ACCESS * len(short.sizes) + short.vector * short.computed
    of_thread = unroll * of_access + steps * JOIN * short.states + MEETING * (lanes > WARP)
    issued = each * target.sm_count * lanes * of_thread / WARP
    alone = 0.0 if short.many else DEPENDENT * of_thread / target.rates.clock
    return alone + max(
        moved / (target.rates.memory * MEMORY_SHARE * min(1.0, asked * threads / ENOUGH)),
        issued / (target.sm_count * target.sm_issues * ISSUE_SHARE),
    )
