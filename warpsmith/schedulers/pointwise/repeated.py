"""Threads that have several rows of the same columns, of which some inputs have one row for all.

Where what rows share has more bytes than the rows themselves, as the statistics and weights of a
16-bit batch norm have, threads of one access each would mostly load that again and again.
"""

from __future__ import annotations

import math

from warpsmith.ir.domains import IterDomain
from warpsmith.ir.mapping import DomainMap, Group
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.transforms import reorder, split
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.cover import merge_all
from warpsmith.schedulers.layout import InnerRun
from warpsmith.schedulers.multiprocessor import power_of_two_above
from warpsmith.schedulers.problem import Problem

THREADS = 128
"""Of a block, at most."""

WIDEST, NARROWEST = 32, 8
"""Threads side by side: at most where there are rows for others, and at least where there is as
much for them."""

MOST_ROWS = 4
"""Of a thread: two inputs, and what rows share, take some hundred registers then."""

BLOCKS_PER_SM = 8
"""With fewer blocks than so many a multiprocessor threads have fewer rows. An estimate."""


def repeated(
    domains: DomainMap, caches: tuple[Cached, ...], run: InnerRun, vector: int, problem: Problem
) -> tuple[int, int] | None:
    """Threads side by side, and rows of a thread; None where one access each is better.

    Args:
        run: what vectors walk; rows are along what lies outside of it.
        vector: elements of an access.
    """
    first = run.start if vector == 1 else first_of_rows(domains, caches, run)
    if first == run.start:
        return None
    vectors = -(-problem.size(run.extent) // vector)
    outside = [problem.size(domains.extent_of(axis)) for axis in run.axes[: run.start]]
    blocks = math.prod(outside) * vectors / THREADS
    there = math.prod(outside[first:])
    rows = min(MOST_ROWS, power_of_two_above(there))
    while rows > 1 and blocks < rows * BLOCKS_PER_SM * problem.target.sm_count:
        rows //= 2
    down = power_of_two_above(-(-there // rows))
    return (_width(vectors, max(WIDEST, THREADS // down)), rows) if rows > 1 else None


def first_of_rows(domains: DomainMap, caches: tuple[Cached, ...], run: InnerRun) -> int:
    """The first of the dimensions just outside of a run that only tensors with all of them have;
    the run's own first where others that walk it have no more bytes than those.
    """
    outside = _groups(domains, run.axes[: run.start])
    groups = {cached: _groups(domains, cached.copy.shape_axes) for cached in caches}
    others = [cached for cached in caches if not outside <= groups[cached]]
    shared = sum(c.memory.dtype.size for c in others if c in run.walkers)
    if shared <= sum(c.memory.dtype.size for c in caches if c not in others):
        return run.start
    known = frozenset[Group]().union(*(groups[cached] for cached in others))
    first = run.start
    while first > 0 and domains.group(run.axes[first - 1]) not in known:
        first -= 1
    return first


def _groups(domains: DomainMap, axes: tuple[IterDomain, ...]) -> frozenset[Group]:
    return frozenset(domains.group(axis) for axis in axes if not axis.is_broadcast)


def _width(vectors: int, most: int) -> int:
    """Threads side by side: as many as divide the vectors, or a power of two."""
    most = min(most, power_of_two_above(vectors))
    exact = (n for n in range(min(NARROWEST, most), most + 1) if vectors % n == 0)
    return max(exact, default=most)


def divide(
    output: TensorView, run: InnerRun, first: int, *, vector: int, width: int, rows: int
) -> None:
    """From dimensions in memory order to `[blocks, rows, threads, threads side by side, vector]`,
    a block's threads and a thread's rows one below the other.
    """
    merge_all(output, run.start, len(output.loop))
    merge_all(output, first, run.start)
    merge_all(output, 0, first)
    place = min(first, 1)
    split(output, place + 1, vector)
    split(output, place + 1, width)
    split(output, place, max(1, THREADS // width))
    split(output, place, rows)
    reorder(output, {place + 3: place + 1})
    merge_all(output, 0, place + 2)
