"""Choice of threads and elements for scans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.program import Program
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.layout import InnerRun, find_inner_run
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.scan.applicability import scans
from warpsmith.targets.family import WARP

ELEMENTS = 4
"""That a thread scans at a time where it loads them one by one."""

ROW_THREADS = 256
"""Threads of a long row; of shorter ones a block has several."""

BLOCKS = 8
"""Of a cluster, at most, that share a long row where rows are fewer than multiprocessors."""

COLUMN_THREADS = 8
"""Threads of a column, one below the other: 32 columns a block, whose rows are whole sectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanParams:
    """A schedule of scans.

    Attributes:
        inner: threads along x lie along the scanned dimension, and not along others.
        block_x, block_y: threads of a block; those of `inner` along y have rows of their own, the
            others share a column.
        elements: of a thread that follow each other.
        vectorized: names of the global tensors accessed in vectors of so many elements.
        blocks: of a cluster, that share each row of `inner`.
    """

    inner: bool
    block_x: int
    block_y: int
    elements: int
    vectorized: tuple[str, ...]
    blocks: int = 1


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


def choose(
    fusion: Program, domains: DomainMap, caches: Sequence[Cached], problem: Problem
) -> ScanParams:
    """Threads follow from the length as a power of two, vectors from what divides it."""
    run = run_of(fusion, domains, caches)
    length = problem.size(run.extent)
    kept = problem.size(integers.mul(*map(domains.extent_of, run.axes[:-1])))
    if not run.walkers and kept >= WARP:
        rows = COLUMN_THREADS if length > ELEMENTS * COLUMN_THREADS else 1
        return ScanParams(inner=False, block_x=WARP, block_y=rows, elements=ELEMENTS, vectorized=())
    width = run.vector(problem)
    vectorized = run.vectorized(problem, width)
    elements = width if vectorized else ELEMENTS
    threads = WARP
    while threads < ROW_THREADS and threads * elements < length:
        threads *= 2
    rows = min(ROW_THREADS // threads, 4) if kept > 1 else 1
    return ScanParams(
        inner=True,
        block_x=threads,
        block_y=rows,
        elements=elements,
        vectorized=vectorized,
        blocks=_blocks(length // (threads * elements), kept, problem) if rows == 1 else 1,
    )


def _blocks(passes: int, kept: int, problem: Problem) -> int:
    """As many as leave each block two passes or more, and none without a multiprocessor."""
    blocks = 1
    while blocks < BLOCKS and 4 * blocks <= passes and 2 * blocks * kept <= problem.target.sm_count:
        blocks *= 2
    return blocks
