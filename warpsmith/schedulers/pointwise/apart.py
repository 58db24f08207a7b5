"""Elements that are read one by one, since no vector of them lies in memory as it is needed.

Where lanes of a vector take them in turn, neighbouring threads read a vector's width apart, and an
access of a warp passes through L1 several times, which may take longer than memory does. Where a
thread has one element beside its neighbour's, and the next a block's width further on, an access
passes once, and what threads compute of their places is computed more often.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.program import Program
from warpsmith.ir.strides import strides
from warpsmith.schedulers.caching import Cached, moved
from warpsmith.schedulers.layout import InnerRun
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reads import steps_of_reads
from warpsmith.schedulers.traffic import MEMORY_SHARE, bytes_elsewhere
from warpsmith.targets.family import WARP
from warpsmith.values import dataclass

LINE_BYTES = 128
"""Of L1, that an access of a warp reaches in one pass."""

ACCESS_BYTES = 16
"""Of one type that a thread has on its way, in several accesses where none is so wide."""

MOST_TURNS, MOST_LOADS = 8, 32
"""Vectors that a thread has one after the other, and loads that are on their way. Estimates."""

BLOCKS_PER_SM, THREADS = 8, 128
"""With fewer blocks than so many a multiprocessor threads have fewer elements. An estimate."""


@dataclass(frozen=True, slots=True)
class _Access:
    """A thread's access to elements of a vector, so many bytes from one to the next.

    Attributes:
        whole: one access takes all of them.
        skips: other elements lie between, which other accesses read.
    """

    width: int
    step: int
    whole: bool
    skips: bool = False

    @property
    def passes(self) -> float:
        """Of a warp through L1, for one element of each thread."""
        apart = self.width * self.step * WARP / LINE_BYTES
        return min(WARP, max(1.0, apart)) / (self.width if self.whole else 1)


def side_by_side(
    fusion: Program,
    domains: DomainMap,
    caches: tuple[Cached, ...],
    run: InnerRun,
    vector: int,
    problem: Problem,
) -> tuple[int, int]:
    """Elements of a vector, and vectors of a thread a block's width apart.

    Args:
        vector: elements of the widest vector that the run has.
    """
    axes = (*(domains.extent_of(axis) for axis in run.axes[: run.start]), run.extent)
    elements = prod(map(problem.size, axes))
    target = problem.target
    size = moved(caches, problem) + bytes_elsewhere(fusion, problem)
    memory_us = size / (MEMORY_SHARE * target.rates.memory)
    accesses = {
        width: [*_accesses(fusion, domains, caches, run, width, problem)]
        for width in (2**n for n in reversed(range(vector.bit_length())))
    }

    def us(width: int) -> float:
        """What memory takes, or L1, by which a warp passes once a cycle; and both where each line
        is read by several accesses, of which the first waits for memory.
        """
        each_us = elements / WARP / (target.rates.clock * target.sm_count)
        passes = sum(access.passes for access in accesses[width])
        again = sum(access.passes for access in accesses[width] if access.skips)
        return max(memory_us, (passes - again) * each_us) + again * each_us

    best = min(accesses, key=us)
    loads = sum(1 if each.whole else best for each in accesses[best])
    widest = max((cached.memory.dtype.size for cached in caches), default=ACCESS_BYTES)
    turns = min(MOST_TURNS, ACCESS_BYTES // (best * widest))
    blocks = elements // (best * THREADS)
    while turns > 1 and (
        turns * loads > MOST_LOADS or blocks < turns * BLOCKS_PER_SM * target.sm_count
    ):
        turns //= 2
    return best, max(turns, 1)


def _accesses(
    fusion: Program,
    domains: DomainMap,
    caches: tuple[Cached, ...],
    run: InnerRun,
    width: int,
    problem: Problem,
) -> Iterator[_Access]:
    """Those of what a vector's elements are made of, and of what is made of them."""
    names = run.vectorized(problem, width)
    for cached in caches:
        step = _step(domains, cached, run, problem)
        if step:
            yield _Access(width, step * cached.memory.dtype.size, cached.name in names)
    for step, whole, skips in steps_of_reads(fusion, domains, run, problem, width):
        if step:
            yield _Access(width, step, whole, skips)


def _step(domains: DomainMap, cached: Cached, run: InnerRun, problem: Problem) -> int:
    """Elements from one to the next along a run; 0 where all of it are one."""
    axes, last = cached.copy.shape_axes, domains.group(run.axes[-1])
    apart = strides(cached.memory, [axis.extent for axis in cached.memory.shape_axes])
    for axis, step in zip(axes, apart, strict=True):
        if not axis.is_broadcast and domains.group(axis) == last:
            return problem.size(step)
    beside = any(cached is each for each, _ in run.beside)
    return int(beside or cached in run.walkers)
