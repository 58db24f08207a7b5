"""Threads that have several rows of the same columns, of which some inputs have one row for all.

Where what rows share has more bytes than the rows themselves, as the statistics and weights of a
16-bit batch norm have, threads of one access each would mostly load that again and again.
"""

from __future__ import annotations

import math

from warpsmith.ir.exprs import Pointwise
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap, Group
from warpsmith.ir.reads import Read
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.transforms import reorder, split
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.cover import merge_all
from warpsmith.schedulers.layout import InnerRun
from warpsmith.schedulers.multiprocessor import power_of_two_above
from warpsmith.schedulers.pointwise.applicability import beyond
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows.recompute import COSTLY
from warpsmith.targets.family import WARP

THREADS = 128
"""Of a block, at most."""

WIDEST, NARROWEST = 32, 8
"""Threads side by side: at most where there are rows for others, and at least where there is as
much for them."""

BUSY = 0.7
"""Of a block's lanes, those that have something to do at least. With a third of them, halves of
8396 x 4264 that are stacked took 184 us, not 110 (an H200)."""

MOST_ROWS = 4
"""Of a thread: two inputs, and what rows share, take some hundred registers then."""

MOST_READS = 8
"""That a thread does once for all its rows: a vector of each is in registers meanwhile."""

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
    if rows == 1:
        return None
    down = power_of_two_above(-(-there // rows))
    width = _width(vectors, there, rows, max(WIDEST, THREADS // down))
    return None if width is None else (width, rows)


def first_of_rows(domains: DomainMap, caches: tuple[Cached, ...], run: InnerRun) -> int:
    """The first of the dimensions just outside of a run that only tensors with all of them have;
    the run's own first where others that walk it have no more bytes than those.
    """
    outside = domains.groups(run.axes[: run.start])
    groups = {cached: domains.groups(cached.copy.shape_axes) for cached in caches}
    others = [cached for cached in caches if not outside <= groups[cached]]
    shared = sum(c.memory.dtype.size for c in others if c in run.walkers)
    if shared <= sum(c.memory.dtype.size for c in caches if c not in others):
        return run.start
    known = frozenset[Group]().union(*(groups[cached] for cached in others))
    first = run.start
    while first > 0 and domains.group(run.axes[first - 1]) not in known:
        first -= 1
    return first


def _width(vectors: int, there: int, rows: int, most: int) -> int | None:
    """Threads side by side: as many as divide the vectors, or a power of two; where most of a block
    would have nothing to do, as many as leave fewest idle, or None.

    Args:
        there: rows, of which a thread has `rows`.
        most: threads side by side.
    """
    most = min(most, power_of_two_above(vectors))
    ways = range(min(NARROWEST, most), most + 1)
    exact = max((n for n in ways if vectors % n == 0), default=most)
    best = max(ways, key=lambda n: (round(_busy(vectors, there, rows, n), 3), n))
    return next((n for n in (exact, best) if _busy(vectors, there, rows, n) >= BUSY), None)


def _busy(vectors: int, there: int, rows: int, width: int) -> float:
    """The share of a block's lanes that have something to do."""
    below = max(1, THREADS // width)
    threads = width * below
    share = threads / (-(-threads // WARP) * WARP)
    for extent, each in ((vectors, width), (there, rows * below)):
        share *= extent / (-(-extent // each) * each)
    return share


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


def of_all_rows(fusion: Fusion, domains: DomainMap, run: InnerRun, first: int) -> set[TensorView]:
    """What takes long to compute, or is read at computed places, and is the same in all rows of a
    thread, which are along `first` and later dimensions before the run. Where a condition stands
    around its uses, the compiler would compute it, and read it, for each.
    """
    others = (*run.axes[:first], *run.axes[run.start :])
    same = [
        operation
        for operation in fusion.operations
        if isinstance(operation, Pointwise | Read)
        and beyond([operation.output], domains, others) is None
    ]
    reads = [operation.output for operation in same if isinstance(operation, Read)]
    return {
        *(op.output for op in same if isinstance(op, Pointwise) and op.op in COSTLY),
        *(reads if len(reads) <= MOST_READS else ()),
    }
