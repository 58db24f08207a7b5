"""Choice of threads, elements and blocks for scans.

A block that walks a row waits for memory once a pass. Blocks that share a row, those of a cluster
or of the grid, wait for each other besides. Of these the fastest is taken, by how often a block
waits in turn, or by bytes where all have work enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.program import Program
from warpsmith.schedulers.caching import Cached, moved
from warpsmith.schedulers.layout import InnerRun, find_inner_run
from warpsmith.schedulers.params import Params
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.scan.applicability import scans
from warpsmith.targets.family import WARP
from warpsmith.values import dataclass

ELEMENTS = 4
"""That a thread scans at a time where it loads them one by one."""

ROW_THREADS = 256
"""Threads of a long row; of shorter ones a block has several."""

CLUSTERS = (2, 4, 8)
"""Blocks of a cluster that may share a long row."""

COLUMN_THREADS = 8
"""Threads of a column, one below the other: 32 columns a block, whose rows are whole sectors."""

KEPT_BYTES = 64
"""Bytes of states that a thread keeps in registers where blocks of the grid share a row."""

TRIP_US = 1.0
"""Microseconds until a block has what it asks memory for, or what a block of the grid tells it, and
has joined it: two trips to the L2 or one to memory, and barriers. An estimate."""

REACH = 16
"""Of the blocks for which a block of the grid waits at once, a thread joins so many, if the block
has as many rows."""

EXCHANGE_US = 0.5
"""The same of what blocks of a cluster tell each other. An estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanParams(Params):
    """A schedule of scans.

    Attributes:
        inner: threads along x lie along the scanned dimension, and not along others.
        block_x, block_y: threads of a block; those of `inner` along y have rows of their own, the
            others share a column.
        elements: of a thread that follow each other.
        vectorized: names of the global tensors accessed in vectors of so many elements.
        blocks: of a cluster, that share each row of `inner`.
        grid: blocks of the grid share rows or columns.
        turns: parts of a block's elements in which its threads lie side by side.
    """

    inner: bool
    block_x: int
    block_y: int
    elements: int
    vectorized: tuple[str, ...]
    blocks: int = 1
    grid: bool = False
    turns: int = 1

    @property
    def words(self) -> str:
        """Who has a row."""
        if self.grid:
            return "blocks of the grid"
        return f"a cluster of {self.blocks}" if self.blocks > 1 else "a block"

    def without_vectors(self) -> Self | None:
        return replace(self, vectorized=()) if self.vectorized else None


def axes_of(fusion: Program, caches: Sequence[Cached], domains: DomainMap) -> list[IterDomain]:
    """Dimensions of the scans' results: those that are kept, slowest first, then the scanned one.

    They lie as in the first tensor in memory that has them all, or else as the results say.
    """
    scan = scans(fusion)[0]
    output, scanned = scan.output, scan.output.root[scan.dim]
    place = {domains.group(a): a for a in output.root if not a.is_broadcast}
    for cached in caches:
        memory = [cached.copy.shape_axes[d] for d in cached.memory.memory_order()]
        groups = [domains.group(axis) for axis in memory if not axis.is_broadcast]
        if set(groups) == set(place):
            ordered = [place[group] for group in groups]
            break
    else:
        ordered = list(place.values())
    return [*(axis for axis in ordered if axis is not scanned), scanned]


def run_of(fusion: Program, domains: DomainMap, caches: Sequence[Cached]) -> InnerRun:
    """The scanned dimension, and the tensors that walk it contiguously."""
    return find_inner_run(domains, axes_of(fusion, caches, domains), caches).last_only()


def along_rows(run: InnerRun, caches: Sequence[Cached]) -> bool:
    """Whether the scanned dimension is the fastest of most bytes that have all dimensions."""
    whole = [each for each in caches if _rank(each) == len(run.axes)]
    walking = [each for each in run.walkers if each in whole]
    return 2 * sum(map(_width, walking)) > sum(map(_width, whole))


def _rank(cached: Cached) -> int:
    return sum(not axis.is_broadcast for axis in cached.copy.shape_axes)


def _width(cached: Cached) -> int:
    return cached.memory.dtype.size


def choose(
    fusion: Program, domains: DomainMap, caches: Sequence[Cached], problem: Problem
) -> ScanParams:
    """The candidate that is predicted to be the fastest; of equal ones that of fewer blocks."""
    return min(candidates(fusion, domains, caches, problem), key=lambda each: each[1])[0]


def candidates(
    fusion: Program, domains: DomainMap, caches: Sequence[Cached], problem: Problem
) -> list[tuple[ScanParams, float]]:
    """Ways to share rows out, with the microseconds that each is predicted to take."""
    run = run_of(fusion, domains, caches)
    length = problem.size(run.extent)
    kept = problem.size(integers.mul(*map(domains.extent_of, run.axes[:-1])))
    rows = kept < WARP or along_rows(run, caches)
    alone = _of_rows(run, length, kept, problem) if rows else _of_columns(length)
    bytes_of_states = sum(d.size for scan in scans(fusion) for d in scan.carry.dtypes)
    turns = max(KEPT_BYTES // (bytes_of_states * alone.elements), 1)
    shared = replace(alone, grid=True, turns=turns)
    found = [alone]
    if alone.inner and alone.block_x == ROW_THREADS:
        passes = -(-length // (ROW_THREADS * alone.elements))
        clusters = (n for n in problem.target.runs(CLUSTERS) if n <= passes)
        found += [replace(alone, blocks=blocks) for blocks in clusters]
    along = alone.block_x if alone.inner else alone.block_y
    if length > turns * along * alone.elements:
        found.append(shared)
    size = moved(caches, problem)
    return [(each, _us(each, length, kept, size, problem)) for each in found]


def _of_columns(length: int) -> ScanParams:
    """Of a block whose warps lie across what is scanned."""
    rows = COLUMN_THREADS if length > ELEMENTS * COLUMN_THREADS else 1
    return ScanParams(inner=False, block_x=WARP, block_y=rows, elements=ELEMENTS, vectorized=())


def _of_rows(run: InnerRun, length: int, kept: int, problem: Problem) -> ScanParams:
    """Of a block that shares its rows with no other one: threads follow from the length as a power
    of two, vectors from what divides it.
    """
    width = run.vector(problem)
    vectorized = run.vectorized(problem, width)
    elements = width if vectorized else ELEMENTS
    threads = WARP
    while threads < ROW_THREADS and threads * elements < length:
        threads *= 2
    rows = min(ROW_THREADS // threads, 4) if kept > 1 else 1
    return ScanParams(
        inner=True, block_x=threads, block_y=rows, elements=elements, vectorized=vectorized
    )


def _us(params: ScanParams, length: int, kept: int, moved: int, problem: Problem) -> float:
    """Microseconds, by the bytes that are moved and by how often a block waits in turn."""
    target = problem.target
    along, beside = params.block_x, params.block_y
    if not params.inner:
        along, beside = beside, along
    at_once = target.sm_count * (target.family.limits.sm_threads // (along * beside))
    rows, parts = -(-kept // beside), -(-length // (along * params.elements * params.turns))
    memory = moved / target.rates.memory
    if params.grid:  # for its number, its elements, the blocks before; and for each group before
        group = along * min(beside, REACH)
        waits = max(-(-rows * parts // at_once) * 3, 2 - (-parts // group))
        return max(memory, waits * TRIP_US)
    waves, passes = -(-rows * params.blocks // at_once), -(-parts // params.blocks)
    exchange = EXCHANGE_US if params.blocks > 1 else 0.0
    return max(memory, waves * passes * (TRIP_US + exchange))
