"""Choice of block shape, unrolling and splitting for reductions.

Two shapes of the same schedule: the fastest dimension is reduced (**inner**), so that a thread's
vector is reduced too; or it is kept (**outer**), so that each lane of a vector is a result of its
own.
"""

from __future__ import annotations

import math
from dataclasses import replace

from warpsmith.ir.exprs import takes_moments
from warpsmith.ir.levels import has_levels
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.program import Program
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.multiprocessor import power_of_two_above
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reads import accesses_of, reads, single_reads
from warpsmith.schedulers.reduction.applicability import after_reduction, reductions
from warpsmith.schedulers.reduction.aside import walks_reduced
from warpsmith.schedulers.reduction.lanes import few_vectors
from warpsmith.schedulers.reduction.leveled import (
    LEVEL_THREADS,
    NARROW_BYTES,
    accesses,
    counted_states,
)
from warpsmith.schedulers.reduction.params import ReductionParams
from warpsmith.schedulers.reduction.shape import Shape, rows_and_rest, shape_of
from warpsmith.schedulers.reduction.short import ShortBlock, short_block
from warpsmith.schedulers.reduction.tall import MANY, ON_THE_WAY, Tall, tall_block

# The numbers below were measured on one H200 (docs/lessons/reductions.md, 2026-11-21).

NARROW_VECTORS = 16
"""Rows of up to this many vectors are reduced by as many lanes of one warp."""

FEW_ROWS = 128
"""Columns of up to this many elements are reduced by one thread each."""

LONG_VECTORS = 2048
"""Rows of more vectors than this are reduced by the largest blocks, one pass of one each."""

MOST_BLOCKS = 16384
"""Blocks of a launch that splits rows. Each has one pass, up to here: blocks that start as others
end read at 95 to 98 % of the ceiling, persistent blocks at 93 to 95 %."""

BLOCK_BYTES, SEVERAL_BYTES = 65536, 131072
"""What a block reads of a split row at least, where multiprocessors have enough blocks: as much as
one pass of wide accesses does, of several inputs twice as much. Backward of batch norm was read at
a fifth of the rate by blocks of 8 KB (121x121 pixels), and at half of it by blocks of 64 KB with a
multiprocessor each (36x36 floats; one H200, 2026-11-26)."""

ENOUGH_BLOCKS_PER_SM = 8
"""Blocks for each multiprocessor from which on rows are not split."""

MOST_BLOCKS_PER_SM = 16
"""Blocks of one multiprocessor that registers are bounded for; it holds more."""

RING_STAGES = 4
RING_BLOCK = (16, 16, 4)
"""Stages of a ring of tiles, and (block_x, block_y, unroll) of a tile: 64 rows of 256 bytes."""

RING_REST = 27 * 1024
"""Bytes of shared memory of a block that a ring leaves for the rest."""

RING_ROWS, RING_BYTES = 2048, 100_000_000
"""Columns that are shorter, or fewer bytes in all, are loaded by the threads."""

RING_TALL_ROWS = 16384
"""Columns of so many elements are loaded ahead even where a few multiprocessors get none."""

SHARED_THREADS, SHARED_ROWS_PER_SM = 128, 8
"""Threads of a block, two rows each, where rows are multiplied by one that the L2 would else give
again for each of them; and rows for each multiprocessor from which on they are. 32000x4096: 64.5 µs
in place of 92.2 (one H200, 2026-11-26)."""

MOST_ACCESSES, MOST_HELD = 8, 16
"""Of a thread along a column, of all inputs, that are under way together; and that it has registers
for, where those of parts of the columns are not; or of a row, of elements at computed places."""


def choose(
    fusion: Program, domains: DomainMap, caches: tuple[Cached, ...], problem: Problem
) -> ReductionParams:
    """Block shape and unrolling.

    Inner reductions look at the row's length, and at whether its groups of rows are more than
    a grid has along y; outer ones at the columns, and at whether they are longer than `FEW_ROWS`,
    the lengths of `SHORT`, what makes a ring pay and what `tall_block` compares. So a new row count
    changes nothing but on which side of those it lies.
    """
    shape = shape_of(fusion, domains, caches)
    ring = not ring_refusal(fusion, domains, caches, problem)
    short = None if ring else _short(fusion, shape, problem)
    if short is not None:
        return ReductionParams(
            inner=False,
            vector=short.vector,
            unroll=short.unroll,
            rows_per_thread=1,
            block_x=short.block_x,
            block_y=short.block_y,
            blocks_per_sm=1,
            splits_first=False,
            vectorized=shape.run.vectorized(problem, short.vector),
            exact=True,
        )
    welford = any(map(takes_moments, fusion.operations))
    if shape.inner:
        vector, sizes = accesses_of(fusion, domains, shape.run, problem)
        vectors = -(-problem.size(shape.reduced) // vector)
        block_x, block_y, unroll, rows_per_thread = _inner_block(vectors, welford)
        # Each input of the domain has its own accesses in flight: together as many as one would.
        if vectors > LONG_VECTORS and any(map(has_levels, fusion.operations)):
            unroll = accesses(vector, sizes)
        few = None if welford else few_vectors(fusion, domains, shape, problem, vector, sizes)
        narrow = vector * max(sizes, default=4) <= NARROW_BYTES and vectors > LONG_VECTORS
        if few is not None:
            block_x, block_y, unroll, rows_per_thread = few
        elif not narrow and unroll * len(sizes) > MOST_ACCESSES // 2:
            unroll = max(1, unroll // len(sizes))
        if vectors > max(LONG_VECTORS, unroll * block_x):  # in several blocks, and so in enough
            passes = problem.size(shape.kept) * vectors // block_x
            while unroll > 1 and passes < unroll * problem.target.sm_count:
                unroll //= 2
        whole = rows_per_thread == 1 and not welford and _share_loads(domains, shape, problem)
        if whole:
            block_x = min(SHARED_THREADS, max(32, power_of_two_above(vectors) // 2))
            block_y, unroll, rows_per_thread = SHARED_THREADS // block_x, 2, 2
        single = single_reads(fusion, domains, shape.run, problem, vector)
        while vector > 1 and single * vector * unroll > MOST_HELD:
            vector //= 2
    else:
        vector, (block_x, block_y, unroll) = _columns(fusion, domains, shape, problem)
        rows_per_thread, whole = 1, False
    params = ReductionParams(
        inner=shape.inner,
        vector=vector,
        unroll=unroll,
        rows_per_thread=rows_per_thread,
        block_x=block_x,
        block_y=block_y,
        blocks_per_sm=1,
        splits_first=False,
        vectorized=shape.run.vectorized(problem, vector),
        whole=whole,
    )
    if ring:
        block_x, block_y, unroll = RING_BLOCK
        params = replace(params, ring=RING_STAGES, block_x=block_x, block_y=block_y, unroll=unroll)
    return replace(
        params,
        blocks_per_sm=_blocks_per_sm(fusion, shape, params, problem),
        splits_first=_splits_first(shape, params, problem),
    )


def _short(fusion: Program, shape: Shape, problem: Problem) -> ShortBlock | None:
    """How a block takes short columns whole; None where they are rows, variances or too much."""
    if shape.inner or any(map(takes_moments, fusion.operations)):
        return None
    rows, columns = problem.size(shape.reduced), problem.size(shape.kept)
    loads = [cached.memory.dtype.size for cached in shape.run.walkers if cached.load]
    return short_block(rows, columns, shape.run.vector(problem), loads, problem)


def ring_refusal(
    fusion: Program, domains: DomainMap, caches: tuple[Cached, ...], problem: Problem
) -> str:
    """Why tiles are not loaded ahead through shared memory; empty where they are.

    The TMA unit loads them, so they are boxes of the inputs, in rows of whole 16 bytes.
    """
    shape = shape_of(fusion, domains, caches)
    if problem.rings == "never":
        return "the knob `rings` says never"
    if shape.inner:
        return "rows are reduced, which threads load as fast by themselves"
    reduced = [axis for axis in shape.axes if axis.is_reduction]
    if shape.run.start or len(shape.run.axes) + len(reduced) != len(shape.axes):
        return "the kept dimensions are not one contiguous run"
    after = after_reduction(fusion)
    for cached in caches:
        if not cached.load or cached.register in after:
            continue
        memory = cached.memory
        dims = [axis for axis in memory.shape_axes if not axis.is_broadcast]
        if cached not in shape.run.walkers or len(dims) != len(shape.axes):
            return f"{memory.name} lacks a dimension, or does not walk the columns"
        if False in memory.contiguity or not problem.aligned(memory, 16 // memory.dtype.size):
            return f"{memory.name} is not contiguous, or not aligned to 16 bytes"
    width = RING_BLOCK[0] * shape.run.vector(problem)
    if problem.size(shape.kept) % width:
        return f"the columns are not a multiple of a tile's {width}"
    loaded = sum(cached.memory.dtype.size for cached in shape.run.walkers if cached.load)
    room = problem.target.family.limits.block_shared - RING_REST
    if RING_STAGES * RING_BLOCK[1] * RING_BLOCK[2] * width * loaded > room:
        return "tiles of all inputs do not fit in shared memory"
    if problem.rings == "prefer":
        return ""
    welford = any(map(takes_moments, fusion.operations))
    return _ring_is_slower(shape, width, problem, welford)


def _ring_is_slower(shape: Shape, width: int, problem: Problem, welford: bool) -> str:
    """Why threads that load for themselves are as fast, or faster (docs/lessons/rings.md)."""
    columns, rows = problem.size(shape.kept), problem.size(shape.reduced)
    loads = [cached.memory.dtype.size for cached in shape.run.walkers if cached.load]
    groups, sms = columns // width, problem.target.sm_count
    if 2 * groups <= sms or (groups < sms and rows < RING_TALL_ROWS):
        return "columns are too few to give every multiprocessor a tile without splitting them"
    if welford and groups > 2 * sms:
        return "variances of so many columns come in turns, which a ring slows down"
    if rows < RING_ROWS or rows * columns * sum(loads) < RING_BYTES:
        return f"less than {RING_ROWS} rows, or than {RING_BYTES // 10**6} MB, are loaded"
    return ""


def _groups(shape: Shape, params: ReductionParams, problem: Problem) -> int:
    """Groups of results that a block computes at a time, at least 1."""
    inner, outer = params.block_y * params.rows_per_thread, params.block_x * params.vector
    return max(1, -(-problem.size(shape.kept) // (inner if params.inner else outer)))


def _passes(shape: Shape, params: ReductionParams, problem: Problem) -> int:
    """Passes of a block over what one result reduces, at least 1."""
    inner, outer = params.block_x * params.vector, params.block_y
    per_pass = params.unroll * (inner if params.inner else outer)
    return max(1, -(-problem.size(shape.reduced) // per_pass))


def _blocks_per_sm(fusion: Program, shape: Shape, params: ReductionParams, problem: Problem) -> int:
    """Blocks that the registers are to leave room for.

    Tall blocks of an outer reduction have a multiprocessor each, and a fusion of several reductions
    needs the registers of several, but two of rows: a sum of a row is one register of a thread.
    """
    reduced = reductions(fusion)
    threads = params.block_x * params.block_y
    if not shape.inner and problem.size(shape.reduced) > FEW_ROWS:
        return 2 if threads <= 256 and len(reduced) == 1 else 1
    joins = shape.inner and takes_moments(reduced[0].definition) and threads > 256
    states = counted_states(reduced) if shape.inner else len(reduced)
    shares = params.rows_per_thread > 1 and threads == SHARED_THREADS
    most = 512 if joins or shares else 1024 if states else LEVEL_THREADS
    several = states // 2 if shape.inner else states
    return max(1, min(most // threads // max(1, several), MOST_BLOCKS_PER_SM))


def _splits_first(shape: Shape, params: ReductionParams, problem: Problem) -> bool:
    """Whether blocks that share a long row start one after the other.

    They then read memory in its order, and combine one row while the next ones are read.
    """
    several = params.inner and params.splits and _passes(shape, params, problem) > 1
    most = problem.target.family.limits.grid_axes[1]
    return several and _groups(shape, params, problem) <= most


def _inner_block(vectors: int, welford: bool) -> tuple[int, int, int, int]:
    """(block_x, block_y, unroll, rows_per_thread) for rows of so many vectors."""
    lanes = power_of_two_above(vectors)
    if vectors <= NARROW_VECTORS:
        if welford and lanes > 1:
            return lanes // 2, 512 // lanes, 2, 2
        return lanes, 256 // lanes, 1, 4
    if vectors > LONG_VECTORS:
        return 512, 1, 8, 1
    unroll = 8 if welford else 4
    block_x = max(32, lanes // unroll)
    return block_x, max(1, 256 // block_x), min(unroll, max(1, lanes // block_x)), 1


def _share_loads(domains: DomainMap, shape: Shape, problem: Problem) -> bool:
    """Whether an input that all rows read alike is loaded once for several rows of a thread."""
    own, same = rows_and_rest(domains, shape)
    enough = SHARED_ROWS_PER_SM * problem.target.sm_count
    return bool(own and same) and problem.size(shape.kept) >= enough


def _columns(
    fusion: Program, domains: DomainMap, shape: Shape, problem: Problem
) -> tuple[int, tuple[int, int, int]]:
    """Elements of an access of columns, and (block_x, block_y, unroll) for them.

    Accesses are of inputs that have all rows, and of what is read at computed places for all; of a
    part of the columns alone they count as much as that is of them. What lacks the rows is loaded
    once for all.
    """
    walks, run = walks_reduced(fusion, domains), shape.run
    whole = tuple(c for c in run.walkers if c.register in walks)
    vector = min(run.vector(problem), replace(run, walkers=whole or run.walkers).vector(problem))
    columns, rows = problem.size(shape.kept), problem.size(shape.reduced)
    beside = (c for c, _ in run.beside if c.register in walks)
    sources = [c.memory for c in (*whole, *beside) if c.load]
    for read in reads(fusion):
        if read.output in walks:
            sources.append(max((part.source for part in read.parts), key=lambda t: t.dtype.size))
    elements = max(1, rows * columns)
    parts = [min(1.0, problem.bytes_of(t) / t.dtype.size / elements) for t in sources]
    most = MOST_ACCESSES // max(1, math.ceil(sum(parts)))
    if most * len(sources) > MOST_HELD:
        most = power_of_two_above(MOST_HELD // len(sources) + 1) // 2
    most, vectors = max(1, most), max(1, -(-columns // vector))
    if rows <= FEW_ROWS:
        return vector, (min(256, power_of_two_above(vectors)), 1, max(1, most // 2))
    sizes = [vector * source.dtype.size for source in sources]
    loads = round(sum(size * part for size, part in zip(sizes, parts, strict=True)))
    access = max(sizes, default=vector)
    few = len(sources) > 1 and MANY * most * (loads or access) < ON_THE_WAY
    if few and 2 * most * len(sources) <= MOST_HELD:
        most *= 2
    tall = Tall(rows=rows, vectors=vectors, access=access, loads=loads or access, unroll=most)
    return vector, (*tall_block(tall, problem.target), most)


def _least_passes(shape: Shape, params: ReductionParams) -> int:
    """Passes over rows that a block has, where there are enough of them for all."""
    sizes = [cached.memory.dtype.size for cached in shape.run.walkers if cached.load]
    threads = params.block_x * params.block_y
    each = threads * params.unroll * params.vector * (sum(sizes) or 4)
    return max(1, (BLOCK_BYTES if len(sizes) < 2 else SEVERAL_BYTES) // each)


def splits(shape: Shape, params: ReductionParams, problem: Problem) -> int:
    """How many blocks share one result, each with work for a pass at least.

    Inner reductions have a block for every pass, unless rows alone keep the device busy; or for as
    many as load `BLOCK_BYTES` where accesses are narrow. Outer ones
    have a partial result for every column, so each further block costs more: one a multiprocessor.
    """
    groups, passes = _groups(shape, params, problem), _passes(shape, params, problem)
    sms = problem.target.sm_count
    wanted = sms // groups
    if params.inner:
        wanted = MOST_BLOCKS // groups if groups < sms * ENOUGH_BLOCKS_PER_SM else 1
        enough = -(-sms * ENOUGH_BLOCKS_PER_SM // groups)
        wanted = min(wanted, max(enough, passes // _least_passes(shape, params)))
    share = -(-passes // max(1, min(wanted, passes)))
    return -(-passes // share)
