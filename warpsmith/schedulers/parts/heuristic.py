"""Choice of threads, passes and rows of a block where rows of parts stay in registers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, product

from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.inner_grid import heuristic as inner_grid
from warpsmith.schedulers.multiprocessor import CLUSTERS
from warpsmith.schedulers.outer_persistent.heuristic import CLUSTER_GAIN, MOST_GUARDED, NARROW_LOSS
from warpsmith.schedulers.outer_persistent.shapes import AGAIN_REGISTERS, blocks_per_sm
from warpsmith.schedulers.parts.levels import in_memory
from warpsmith.schedulers.parts.parts import Parts, as_it_lies
from warpsmith.schedulers.parts.shapes import (
    ENDS_LOSS,
    NARROWEST,
    PartsParams,
    Work,
    registers,
    shapes,
    time_us,
    whole_us,
)
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows.across import (
    LEAST_SHORT,
    unfit_across,
    unfit_elements,
    vector_across,
)
from warpsmith.schedulers.rows.strategy import in_waves_us
from warpsmith.schedulers.rows.work import VECTOR_BYTES

WIDE_ACCESS, MOST_PIECE = 8, 200
"""Bytes of an access from which on rows of which no parts are summed are faster as rows in pieces
(`schedulers/rows`), unless pieces that tell parts apart have no more bytes than that: one H100,
2026-11-26, 24 norms of 7x7 to 28x28 pixels."""

RAGGED = 1.5
"""Times as long where each pass along the slower level has a branch for what is left of the faster.
An estimate, from the order of loads in machine code."""

MOST_REGISTERS = 200
"""Registers that a thread may need by the count of `shapes`."""

LEAST_ALONE = 768
"""Bytes of a part of one input from which on vectors go across its ends. By these, group norms of
17x17 pixels took 1.05 to 1.23 of their times, of 21x21 to 111x111 0.62 to 1.02 (one H200,
2026-11-27)."""

LARGEST_LOSS = 1.17
"""Of several inputs, what rows in the largest clusters take more than is predicted, if blocks that
keep images take that: 1.23 of the predicted times of twelve gradients of group norms, and 1.05 of
32 (geometric means; one H200, 2026-11-26). Rows of planes in clusters of 16 take 7 to 10 % longer
than in clusters of 8."""


def unsupported_sizes(parts: Parts, problem: Problem, *, grid: bool = False) -> str:
    """Why the rows of a call cannot stay in registers; empty where they can.

    Args:
        grid: the blocks of a grid may keep them, too.
    """
    if reason := parts.unordered:
        return reason
    work = parts.work(problem)
    if work.length == 0 or work.rows == 0:
        return "its rows are empty"
    best = _best(parts, problem)
    if reason := _rather_as_rows(parts, work, best, problem, grid=grid):
        return reason
    if best is None:
        most = problem.target.runs(CLUSTERS)[-1]
        return f"rows of {work.length} elements do not fit in the registers of {most} blocks"
    return ""


def _rather_as_rows(
    parts: Parts, work: Work, best: Found | None, problem: Problem, *, grid: bool
) -> str:
    """Why threads had better walk rows as they lie; empty where they had not."""
    if work.apart or any(map(parts.splits, parts.loads)):
        return ""
    access = parts.run.vector(problem) * work.widest
    rows = parts.as_they_lie
    if access < WIDE_ACCESS and rows.in_pieces and not unfit_across(rows, problem):
        shared = inner_grid.predicted_us(rows, problem) if grid else math.inf
        others = min(in_waves_us(rows, problem), shared)
        if best is None or others < whole_us(parts.work(problem, best[1].cluster), best[1]):
            return f"{others:.3g} µs are predicted for rows in pieces"
    if access < WIDE_ACCESS or (parts.parts_inside and work.inner * work.widest <= MOST_PIECE):
        return ""
    return f"rows in pieces are as fast by accesses of {access} bytes"


def predicted_us(parts: Parts, problem: Problem) -> float:
    """Microseconds of the shape that is chosen, as they are held against blocks that keep images;
    infinite where there is none.
    """
    best = _best(parts, problem)
    if best is None:
        return math.inf
    cluster = best[1].cluster
    return _slower(parts, cluster) * whole_us(parts.work(problem, cluster), best[1])


def _slower(parts: Parts, cluster: int) -> float:
    """Times that rows in clusters of so many blocks take of what is predicted."""
    return LARGEST_LOSS if cluster == CLUSTERS[-1] and len(parts.loads) > 1 else 1.0


def choose(parts: Parts, problem: Problem) -> PartsParams:
    """The shape that takes the least time, as `time_us` sees it."""
    best = _best(parts, problem)
    assert best is not None, "sizes are supported where this is asked"
    return finished(parts, best[1], problem)


def finished(parts: Parts, params: PartsParams, problem: Problem) -> PartsParams:
    """A shape, with names of what is accessed in vectors, and how its last accesses are guarded."""
    names, inputs = parts.run.vectorized(problem, params.vector), len(parts.loads)
    many = inputs > 1 or params.passes * params.unroll > MOST_GUARDED
    if params.across:
        names, many = tuple(cached.name for cached in parts.full), True
    return replace(params, vectorized=names, masked=many)


Found = tuple[tuple[float, ...], PartsParams]
"""A shape with a way to keep rows, behind its merit: the smaller, its time first, the better."""


def _best(parts: Parts, problem: Problem) -> Found | None:
    """The fastest shape of one block, or of more where they gain enough by it; any gain is enough
    where a cluster has wider pieces.
    """
    best: Found | None = None
    gain = 1.0 if parts.parts_inside and not parts.work(problem).apart else CLUSTER_GAIN
    for cluster in problem.target.runs(CLUSTERS):
        found = _fastest(parts, problem, cluster)
        if found is not None and (best is None or found[0][0] < gain * best[0][0]):
            best = found
    return best


def considered(parts: Parts, problem: Problem) -> Iterator[Found]:
    """All shapes, of one block and of more."""
    for cluster in problem.target.runs(CLUSTERS):
        yield from _of_cluster(parts, problem, cluster)


def _fastest(parts: Parts, problem: Problem, cluster: int) -> Found | None:
    return min(_of_cluster(parts, problem, cluster), key=lambda way: way[0], default=None)


def _of_cluster(parts: Parts, problem: Problem, cluster: int) -> list[Found]:
    """By vectors that go across the ends of parts, where these can, or by others; blocks have parts
    of their own, where those fit.
    """
    vector, widest = parts.run.vector(problem), vector_across(parts, problem)
    across = () if _unfit_across(parts, problem) else (widest,)
    narrower = tuple(vector >> n for n in range(vector.bit_length()))
    apart = (False, True) if cluster > 1 and not parts.parts_inside else (False,)
    for shares, widths in product(apart, (across, narrower)):
        ways = (
            _of_width(parts, problem, cluster, width, across=widths is across, shares_parts=shares)
            for width in widths
        )
        if found := list(chain.from_iterable(ways)):
            return found
    return []


def _unfit_across(parts: Parts, problem: Problem) -> str:
    """Why vectors cannot go across the begins and ends of parts; empty where they can: parts of all
    tensors lie one behind the other.
    """
    if parts.parts_inside:
        return "parts lie side by side"
    access = parts.run.vector(problem) * max(parts.sizes, default=NARROWEST)
    if access >= (NARROWEST if len(parts.loads) > 1 else VECTOR_BYTES):
        return "accesses are wide enough"
    least = LEAST_SHORT if len(parts.loads) > 1 else LEAST_ALONE
    if problem.size(parts.run.extent) * min(parts.sizes, default=0) < least:
        return "parts are short"
    levels = parts.levels
    wanted = [parts.domains.group(axis) for axis in parts.axes]
    level = [(g in levels.parts) + 2 * (g in levels.inside) for g in wanted]
    if level != sorted(level):
        return "rows do not lie one behind the other"

    def whole(cached: Cached) -> bool:
        return in_memory(parts.domains, as_it_lies(cached), frozenset(wanted)) == wanted

    return unfit_elements(parts, problem, whole)


def _of_width(
    parts: Parts,
    problem: Problem,
    cluster: int,
    vector: int,
    *,
    across: bool,
    shares_parts: bool,
) -> Iterator[Found]:
    work, limits = parts.work(problem, cluster), problem.target.family.limits
    narrow = 1 + NARROW_LOSS * math.log2(max(1, parts.run.vector(problem) / vector))
    ways = [
        (choice.again, late, choice.bytes_per_element(vector), parts.aside / (2 if late else 1))
        for choice in parts.ways
        for late in ((False, True) if parts.aside and not parts.parts_inside else (False,))
    ]
    inside = parts.parts_inside
    slow = 1.0 if inside else _slower(parts, cluster)
    for shape in shapes(
        work, vector, cluster, parts_inside=inside, across=across, shares_parts=shares_parts
    ):
        for rank, (again, late, size, beside) in enumerate(ways):
            more = AGAIN_REGISTERS if again else 0
            needed = registers(work, shape, size, beside, again=more)
            blocks = blocks_per_sm(needed, shape.threads, limits)
            if needed > MOST_REGISTERS or not blocks:
                continue
            apart = not shape.exact and shape.unroll > 1 and shape.passes > 1
            ragged = RAGGED if apart else 1.0
            if across:
                ragged *= 1 + ENDS_LOSS * min(2, shape.unroll) / shape.unroll
            time = time_us(work, shape, blocks) * narrow * ragged * slow
            covered = shape.cluster * shape.block_z * shape.passes * shape.block_x * shape.unroll
            merit = (time, rank, -vector, covered * vector, -shape.block_x, shape.threads)
            yield merit, replace(shape, blocks_per_sm=blocks, reload_weights=late, again=again)
