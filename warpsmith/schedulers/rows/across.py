"""When vectors of rows go across where these begin and end: rows that begin anywhere in memory."""

from __future__ import annotations

from collections.abc import Callable

from warpsmith.ir.exprs import Iota
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.layout import is_one_row
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows.rows import Rows
from warpsmith.schedulers.rows.work import VECTOR_BYTES

LEAST_BYTES, LEAST_SHORT, LEAST_PIECE = 1024, 96, 256
"""Of a row, of one of several inputs or dimensions, and of a piece of one: single elements are as
fast for shorter ones. Instance norms of planes between the first two took 0.86 of their times, 0.53
to 1.02 (20 sizes), gradients of softmax 0.84, 0.77 to 1.00 (8), other rows below 512 bytes 1.05,
batch norms of pieces shorter than the third 1.2 and 1.3 (one H200, 2026-11-27)."""

NARROW_ACCESS = 8
"""Bytes of an access from which on it is as good for such short rows: a plane of 22x22 took 0.97 of
what vectors across its ends took."""

MOST_BYTES = 4
"""Of an element of such rows: an access of longer ones is hardly narrower than a vector."""

TURN_BYTES, LEAST_TURN_BYTES = 8, 10240
"""Of an access, and of a row, where blocks loop over rows: those by 16 bytes have more registers
and take up to 14 % longer, and of shorter rows single elements are as fast
(docs/lessons/odd_rows.md)."""

SHIFTED = (2, 4)
"""Bytes of elements that go in whole registers, or two in one."""


def vector_across(rows: Rows, problem: Problem) -> int:
    """Elements of such a vector: no input has more than VECTOR_BYTES of one, behind whose end that
    many may be read.
    """
    widest = rows.run.vector(problem, cut_short=True)
    return min(widest, VECTOR_BYTES // max(rows.sizes, default=VECTOR_BYTES))


def vector_in_turns(rows: Rows, problem: Problem) -> int:
    """Elements of such a vector where blocks loop over rows; 0 where others are as good, or rows
    have none: short ones, those that two elements divide, those of several dimensions, and
    elements of more than 2 bytes.
    """
    vector = TURN_BYTES // max(rows.sizes, default=TURN_BYTES)
    long = rows.length(problem) * min(rows.sizes, default=0) >= LEAST_TURN_BYTES
    single = rows.run.vector(problem) == 1 and vector > TURN_BYTES // MOST_BYTES
    fits = long and single and len(rows.row) == 1 and not unfit_across(rows, problem)
    return vector if fits else 0


def unfit_across(rows: Rows, problem: Problem) -> str:
    """Why vectors cannot go across; empty where they can: rows of all tensors lie one behind the
    other, and so each begins as much behind a multiple of a vector in all of them.

    So do pieces of rows, where one of each row lies behind the other, and all of these are whole
    vectors: then each piece of a row begins as much behind such a multiple as its first one.
    """
    if not rows.kept:
        return "there is one row"
    vector = vector_across(rows, problem)
    if rows.in_pieces:
        first = rows.axes.index(rows.kept[0])
        last = len(rows.axes) - (len(rows.run.axes) - rows.run.start)
        if any(axis.is_reduction for axis in rows.axes[first:last]):
            return "pieces of a row lie among those of others"
        if rows.count(problem) % vector:
            return f"{rows.count(problem)} pieces, one of each row, are not whole vectors"
    elif len(rows.row) != 1 and rows.weights:
        return "rows have several dimensions, and what they share has, too"
    several = len(rows.row) > 1 or len(rows.loads) > 1
    narrow = rows.run.vector(problem) * max(rows.sizes, default=NARROW_ACCESS) < NARROW_ACCESS
    whole = LEAST_SHORT if several and narrow else LEAST_BYTES
    least = LEAST_PIECE if rows.in_pieces else whole
    if problem.size(rows.run.extent) * min(rows.sizes, default=0) < least:
        return "rows are short"
    return unfit_elements(rows, problem, lambda c: is_one_row(c, rows.domains, rows.axes))


def unfit_elements(rows: Rows, problem: Problem, whole: Callable[[Cached], bool]) -> str:
    """Why such vectors cannot be of the elements that tensors have; empty where they can.

    Args:
        whole: says whether a tensor has all rows, as they lie in the others.
    """
    if max(rows.sizes, default=VECTOR_BYTES) > MOST_BYTES:
        return "elements are too long for that to bring anything"
    if rows.draws or any(isinstance(op, Iota) for op in rows.fusion.operations):
        return "places in rows are computed with, which takes registers that vectors need"
    if any(output.alias_of is not None for output in rows.fusion.outputs):
        return "results take the places of inputs, of which neighbours would read a part"
    vector = vector_across(rows, problem)
    for cached in rows.full:
        if not whole(cached):
            return f"{cached.name} has other rows"
        if False in cached.memory.contiguity or not problem.aligned(cached.memory, vector):
            return f"{cached.name} is not contiguous, or not aligned to 16 bytes"
    return ""


def vectorized_across(rows: Rows, problem: Problem) -> tuple[str, ...]:
    """Names of the tensors whose accesses are such vectors, and of what all rows share that is read
    in vectors from anywhere. A block's sums of columns lie one behind the other as rows do.
    """
    walkers = {cached.name for cached in rows.run.walkers}
    shared = (c for c in rows.weights if c.name in walkers and _shifts(c, problem))
    sums = (c for c in rows.caches if c.register in rows.columns)
    return tuple(cached.name for cached in (*rows.full, *shared, *sums))


def _shifts(cached: Cached, problem: Problem) -> bool:
    """Whether vectors of an input may be put together of two at multiples of 16 bytes."""
    memory = cached.memory
    known = False not in memory.contiguity and problem.aligned(memory, 16 // memory.dtype.size)
    return known and memory.dtype.size in SHIFTED
