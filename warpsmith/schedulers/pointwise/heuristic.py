"""Choice of vector width, unrolling and block size for pointwise fusions."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from math import prod
from typing import Self

from warpsmith.ir import integers
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.program import Program
from warpsmith.ir.scalar import Expr
from warpsmith.schedulers.caching import Cached, past_l1
from warpsmith.schedulers.layout import (
    InnerRun,
    beside_run,
    fastest,
    find_inner_run,
)
from warpsmith.schedulers.params import Params
from warpsmith.schedulers.pointwise.apart import side_by_side
from warpsmith.schedulers.pointwise.applicability import reference
from warpsmith.schedulers.pointwise.repeated import repeated
from warpsmith.schedulers.pointwise.transposed import (
    Transposed,
    columns_of,
    loop_axes,
    transposed_of,
)
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.traffic import instructions
from warpsmith.values import dataclass

# Measured on one H200, 2026-11-21: docs/lessons/pointwise.md and docs/lessons/transpose.md.

THREADS = 128
"""Threads per block of a flat schedule: small blocks and one access each saturate memory."""

TILE_THREADS = 512
"""Threads per block of a tiled schedule: one 16-byte access of each input a thread."""

RING_STAGES = 4
RING_BLOCKS_PER_SM = 4
"""Stages of a ring and blocks a multiprocessor: the best of persistent ones, yet slower than
blocks of one tile by 3 to 5 % (docs/lessons/rings.md)."""

NARROW_BYTES, NARROW_AROUND = 4, 8
"""Of an access along rows that nothing divides, up to which vectors go on from row to row: what has
one element for a row is then read for each element of a vector. More, where nothing has."""

WORD_BYTES, ACCESS_BYTES = 4, 16
"""Of a register, of which vectors from anywhere are put together; and at multiples of
which their inputs begin."""

LONG = 40
"""Instructions of an element, a sine's or more, that threads are not to do for several in turn: a
kernel of 128 elements took 3.5 us, where 16 threads computed eight, two powers and two angles each.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointwiseParams(Params):
    """A pointwise schedule.

    Attributes:
        vector: adjacent elements per thread and access.
        unroll: accesses per thread, a block's width apart, issued before the first use.
        threads: threads per block.
        vectorized: names of the global tensors accessed in vectors.
        exact: no vector is cut short by the end of the tensors.
        transposed: inputs that are read along another dimension, in square tiles; or None.
        ring: stages through which tiles are loaded ahead, by persistent blocks; 1 is a block for
            each tile, which the TMA unit loads; 0 where threads load for themselves.
        streaming: loads of what is read once leave no copy in L1.
        across: vectors go on from one row to the next, past what some tensors have once a row.
        around: names of inputs of one row, of which such vectors go on at the row's beginning.
        of_rows: names of inputs that have one element for a row, no row shorter than a vector.
        width: threads side by side of a block whose threads have `unroll` rows of the same columns;
            0 where they do not.
        last_first: the last blocks start first, where a kernel before read or wrote the same
            tensors, most likely in the order of memory: the L2 holds the end of them.
    """

    vector: int
    unroll: int
    threads: int
    vectorized: tuple[str, ...]
    exact: bool = True
    transposed: Transposed | None = None
    ring: int = 0
    streaming: bool = False
    last_first: bool = False
    across: bool = False
    around: tuple[str, ...] = ()
    of_rows: tuple[str, ...] = ()
    width: int = 0

    def without_vectors(self) -> Self | None:
        if self.vector == 1 and not self.ring:
            return None
        flat = replace(self, transposed=None, ring=0, width=0, unroll=1)
        return replace(flat, vector=1, vectorized=(), around=(), of_rows=())


def inner_run(
    fusion: Program,
    domains: DomainMap,
    caches: tuple[Cached, ...],
    *,
    across: bool = False,
    apart: bool = False,
) -> InnerRun:
    """The inner run of the reference output, dimensions in its memory order; or that `across` rows,
    of the tensors alone that have all dimensions. What a reshape merged may be walked `apart`.
    """
    output = reference(fusion, domains)
    assert output is not None
    parted = loop_axes(output, domains, caches, apart=apart)
    axes = [part for parts in parted for part in parts]
    if not across:
        run = find_inner_run(domains, axes, caches)
        return replace(run, beside=beside_run(domains, run, caches))
    all_groups = domains.groups(axes)
    whole = [c for c in caches if all_groups <= domains.groups(c.copy.shape_axes)]
    return find_inner_run(domains, axes, whole)


def choose(
    fusion: Program, domains: DomainMap, caches: tuple[Cached, ...], problem: Problem
) -> PointwiseParams:
    """Of sizes counts whether vectors divide the inner run; and, of columns of which several inputs
    have one row alone, how wide they are and whether there are rows enough for several a thread.
    """
    run, transposed, vector, whole, across = _walk(fusion, domains, caches, problem)
    ring = not _ring_refusal(run, transposed, whole and not across, problem)
    rows = None if ring or transposed else repeated(domains, caches, run, vector, problem)
    width, unroll = rows or (0, 1)
    once = _once_a_row(domains, caches, run, vector, problem) if across else None
    if run.axes and not (ring or transposed or rows or (once and once.all)):
        vector, unroll = side_by_side(fusion, domains, caches, run, vector, problem)
        whole = whole or vector == 1
        once = _once_a_row(domains, caches, run, vector, problem) if across else None
    params = PointwiseParams(
        vector=vector,
        unroll=unroll,
        threads=THREADS if transposed is None else TILE_THREADS,
        vectorized=run.vectorized(problem, vector),
        exact=whole,
        transposed=transposed,
        ring=RING_STAGES if ring else 0,
        streaming=transposed is None and past_l1(caches, problem),
        last_first=fusion.follows,
        across=across,
        around=once.around if once else (),
        of_rows=once.of_rows if once else (),
        width=width,
    )
    return (
        (params.without_vectors() or params) if _takes_turns(fusion, domains, problem) else params
    )


def _takes_turns(fusion: Program, domains: DomainMap, problem: Problem) -> bool:
    """Whether threads with several elements would compute long ones one after the other, while
    other threads have none.
    """
    output = reference(fusion, domains)
    assert output is not None
    elements = prod(problem.size(axis.extent) for axis in output.shape_axes)
    if elements > THREADS * problem.target.sm_count:
        return False
    return sum(map(instructions, fusion.operations)) >= LONG


def _walk(
    fusion: Program, domains: DomainMap, caches: tuple[Cached, ...], problem: Problem
) -> tuple[InnerRun, Transposed | None, int, bool, bool]:
    """The inner run, what is transposed, the vector's width, whether no vector is cut short, and
    whether vectors go across rows.
    """
    run = inner_run(fusion, domains, caches)
    transposed = transposed_of(domains, caches, problem, run)
    if transposed is None:
        parted = inner_run(fusion, domains, caches, apart=True)
        if parted.axes != run.axes and (found := transposed_of(domains, caches, problem, parted)):
            run, transposed = parted, replace(found, apart=True)
    if transposed is not None:
        run = columns_of(domains, run, transposed)
    # A run of all dimensions ends where the tensors end, so only its last vector can be short. The
    # code for that costs 2 to 5 %, so it is left out where the fastest dimension makes it needless.
    vector = run.vector(problem, cut_short=transposed is None and run.start == 0)
    whole = transposed is not None or run.start > 0 or problem.size(run.last) % vector == 0
    if transposed is None and run.start and vector * _widest(run) <= NARROW_AROUND:
        longer = inner_run(fusion, domains, caches, across=True)
        wider = longer.vector(problem, cut_short=True)
        few = _once_a_row(domains, caches, longer, wider, problem).all
        narrow = vector * _widest(run) <= (NARROW_AROUND if few else NARROW_BYTES)
        if longer.start == 0 and narrow:
            return longer, None, wider, problem.size(longer.extent) % wider == 0, True
    return run, transposed, vector, whole, False


@dataclass(frozen=True, slots=True)
class _Once:
    """Inputs that vectors across rows read once or twice: names as in the parameters, and whether
    these are all that do not walk the run.
    """

    around: tuple[str, ...]
    of_rows: tuple[str, ...]
    all: bool


def _once_a_row(
    domains: DomainMap, caches: tuple[Cached, ...], run: InnerRun, vector: int, problem: Problem
) -> _Once:
    around = _around(domains, caches, run, vector, problem)
    of_rows = _of_rows(domains, caches, run, vector, problem)
    others = {c.name for c in caches} - {c.name for c in run.walkers}
    return _Once(around, of_rows, {*around, *of_rows} >= others)


def _around(
    domains: DomainMap, caches: tuple[Cached, ...], run: InnerRun, vector: int, problem: Problem
) -> tuple[str, ...]:
    """Names of inputs of one row, whose vectors can go on at its beginning."""
    row = domains.group(run.axes[-1])
    return tuple(
        cached.name
        for cached in caches
        if cached.load
        and vector > 1
        and (size := cached.memory.dtype.size) <= WORD_BYTES <= vector * size
        and domains.groups(cached.copy.shape_axes) == {row}
        and fastest(domains, cached) == row
        and problem.aligned(cached.memory, ACCESS_BYTES // size)
    )


def _of_rows(
    domains: DomainMap, caches: tuple[Cached, ...], run: InnerRun, vector: int, problem: Problem
) -> tuple[str, ...]:
    """Names of inputs that have one element for a row, of rows no shorter than a vector."""
    return tuple(
        cached.name
        for cached in caches
        if cached.load and problem.size(row_of(domains, cached, run)) >= vector
    )


def row_of(domains: DomainMap, cached: Cached, run: InnerRun) -> Expr:
    """Elements of the run, the last ones, that have the same one of an input; 1 where it has one
    for each.
    """
    own = domains.groups(cached.copy.shape_axes)
    inner = takewhile(lambda axis: domains.group(axis) not in own, reversed(run.axes))
    return integers.mul(*map(domains.extent_of, inner))


def _widest(run: InnerRun) -> int:
    return max((cached.memory.dtype.size for cached in run.walkers), default=4)


def no_ring(
    fusion: Program, domains: DomainMap, caches: tuple[Cached, ...], problem: Problem
) -> str:
    """Why tiles are not loaded ahead through shared memory; empty where they are."""
    run, transposed, _, whole, across = _walk(fusion, domains, caches, problem)
    return _ring_refusal(run, transposed, whole and not across, problem)


def _ring_refusal(
    run: InnerRun, transposed: Transposed | None, exact: bool, problem: Problem
) -> str:
    if problem.rings == "never":
        return "the knob `rings` says never"
    if problem.rings == "auto":
        return "threads that load for themselves are as fast, or faster"
    if transposed is not None:
        return "inputs are transposed in shared memory"
    if run.start or not exact:
        return "the tensors are not one run of whole vectors"
    if not loads_of_tiles(run, problem):
        return "no input can be copied in multiples of 16 bytes"
    return ""


def loads_of_tiles(run: InnerRun, problem: Problem) -> tuple[Cached, ...]:
    """Inputs that the TMA unit can load: those that walk the whole run, in whole 16 bytes."""
    size = problem.size(run.extent)
    return tuple(
        cached
        for cached in run.walkers
        if cached.load
        and size * cached.memory.dtype.size % 16 == 0
        and problem.aligned(cached.memory, 16 // cached.memory.dtype.size)
    )


def blocks(params: PointwiseParams, problem: Problem) -> int:
    """Persistent blocks, so many a multiprocessor; one where none is."""
    return RING_BLOCKS_PER_SM * problem.target.sm_count if params.ring > 1 else 1
