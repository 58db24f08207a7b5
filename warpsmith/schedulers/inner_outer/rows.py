"""The schedule's parameters of rows beside sums of columns, and what it asks of a fusion's rows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from warpsmith.ir.domains import IterDomain
from warpsmith.ir.exprs import Pointwise, Reduction
from warpsmith.ir.mapping import DomainMap, Group
from warpsmith.ir.program import Program
from warpsmith.ir.tensor import TensorView
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.inner_outer.columns import partial_sums
from warpsmith.schedulers.layout import (
    InnerRun,
    find_inner_run,
    unfit_for_bulk,
    unfit_for_copies,
)
from warpsmith.schedulers.normalization.resident import role_may_share
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.applicability import reductions
from warpsmith.schedulers.reduction.heuristic import memory_ordered
from warpsmith.schedulers.rows.params import RowParams

MOST_ADDED = 1024
"""Rows that a thread adds to a running sum, whose error grows with the root of their number: with
3800 of a million rows it was twice that of PyTorch's sums."""


RING_ROW_BYTES = 1024
"""Rows of fewer bytes are not loaded ahead: one thread asks for each of them apart."""

PACE = 0.9
"""Of what the memory moves by its clock: as much as the fastest kernels get. Blocks that ask for
more drift apart, and then the memory moves less (docs/lessons/norms_backward.md)."""

PACED_BYTES, MOST_PACED_SUMS = 100_000_000, 1
"""Bytes of a tensor of full size, and sums of a row, from which on and up to which that counts:
with two sums, a turn computes for as long as the memory takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What a fusion says of its rows.

    Attributes:
        axes: the dimensions in memory order, those of a row last.
        run: the fastest of them, which a vector may walk.
        full: the copies that have an element for each one of the rows.
        loaded, stored: bytes of inputs and results of full size, for each element of a row.
        summed: bytes of running sums, for each column.
        averaged: sums of each row.
        operations: on each element of a row.
        weights_fit: a role may bring what all rows share to shared memory.
        draws: numbers that look random are drawn for them.
    """

    axes: tuple[IterDomain, ...]
    run: InnerRun
    full: tuple[Cached, ...]
    loaded: int
    stored: int
    summed: int
    averaged: int
    operations: int
    weights_fit: bool
    draws: bool

    @property
    def loads(self) -> tuple[Cached, ...]:
        """The inputs among `full`."""
        return tuple(cached for cached in self.full if cached.load)


IN_PIECES = "rows lie in several pieces"


def row_sums(fusion: Program) -> tuple[TensorView, ...]:
    """The reductions of rows."""
    columns = set(partial_sums(fusion))
    return tuple(t for t in reductions(fusion) if t not in columns)


def rows_of(fusion: Program, domains: DomainMap, caches: tuple[Cached, ...]) -> Rows:
    """Of a fusion with caches whose sums of columns are cut."""
    axes = memory_ordered(domains, row_sums(fusion)[0], caches)
    start = len(axes)
    while start and axes[start - 1].is_reduction:
        start -= 1
    whole = _groups(domains, axes)
    full = tuple(c for c in caches if _groups(domains, c.copy.shape_axes) == whole)
    run = _groups(domains, axes[start:])
    weights = [c for c in caches if c.load and c not in full]
    weights = [c for c in weights if _groups(domains, c.copy.shape_axes) & run]
    return Rows(
        axes=axes,
        run=find_inner_run(domains, axes[start:], caches),
        full=full,
        loaded=sum(cached.memory.dtype.size for cached in full if cached.load),
        stored=sum(cached.memory.dtype.size for cached in full if not cached.load),
        summed=sum(tensor.dtype.size for tensor in partial_sums(fusion)),
        averaged=len(row_sums(fusion)),
        operations=sum(
            isinstance(operation, Pointwise | Reduction)
            and _groups(domains, operation.outputs[0].root) == whole
            for operation in fusion.operations
        ),
        weights_fit=role_may_share(fusion, domains, full, weights, axes[start:]),
        draws=any(isinstance(op, Pointwise) and op.op == "philox" for op in fusion.operations),
    )


def _groups(domains: DomainMap, axes: Iterable[IterDomain]) -> set[Group]:
    return {domains.group(axis) for axis in axes if not axis.is_broadcast}


def unfit_for_tiles(rows: Rows, problem: Problem, least: int = 16, blocks: int = 1) -> str:
    """Why the TMA unit cannot bring rows, in copies of `least` bytes or more; empty where it can.

    `blocks` have a part of each row.
    """
    if rows.run.start:
        return IN_PIECES
    length, part = length_of(rows, problem), part_of(rows, problem, blocks)
    return unfit_for_copies(rows.loads, length, problem, least) or unfit_for_copies(
        rows.loads, min(part, length - (blocks - 1) * part), problem, least
    )


def part_of(rows: Rows, problem: Problem, blocks: int) -> int:
    """Elements of a row that each of so many blocks has, the last one perhaps less, so that all
    parts begin at multiples of 16 bytes and of a vector.
    """
    narrowest = min((cached.memory.dtype.size for cached in rows.loads), default=16)
    grain = max(rows.run.vector(problem), 16 // narrowest) if blocks > 1 else 1
    return -(-length_of(rows, problem) // (blocks * grain)) * grain


def unfit_for_stages(rows: Rows, problem: Problem, least: int = 16) -> str:
    """The same of whole rows, which may come in whole chunks, too."""
    if rows.run.start:
        return IN_PIECES
    return unfit_for_bulk(rows.loads, length_of(rows, problem), problem, least)


def row_count(rows: Rows, problem: Problem) -> int:
    """Rows of a call."""
    return math.prod(problem.size(axis.extent) for axis in rows.axes if not axis.is_reduction)


def length_of(rows: Rows, problem: Problem) -> int:
    """Elements of a row."""
    return math.prod(problem.size(axis.extent) for axis in rows.axes if axis.is_reduction)


def interval_of(rows: Rows, params: RowParams, problem: Problem) -> int:
    """Nanoseconds that the memory takes for a turn's rows of all blocks at `PACE`; 0 where blocks
    are not to be held back: the caller's word, few bytes, roles, and turns that compute for as long
    as the memory takes.
    """
    row = length_of(rows, problem) * (rows.loaded + rows.stored)
    bytes_per_us = PACE * problem.target.rates.memory
    by_stages = params.ring and not (params.warp_specialize or params.by_threads)
    free = not by_stages or rows.averaged > MOST_PACED_SUMS
    few = row_count(rows, problem) * row < PACED_BYTES * len(rows.full)
    if free or few or not problem.pace:
        return 0
    at_once = params.blocks_per_sm * problem.target.teams(params.cluster)
    turn = at_once * params.block_y * params.rows_per_thread * row
    return round(1000 * turn / bytes_per_us)


def blocks(rows: Rows, params: RowParams, problem: Problem) -> int:
    """Blocks, or clusters, that go round the rows: all that run at once, unless there are fewer
    rows, or so many that a thread would add too many to one sum. One that is not among those that
    run at once begins when they have ended, and takes as long again.
    """
    kept = row_count(rows, problem)
    wanted = params.blocks_per_sm * problem.target.teams(params.cluster)
    count = max(1, min(wanted, -(-kept // (params.block_y * params.rows_per_thread))))
    count *= max(1, -(-kept // (count * params.block_y * MOST_ADDED)))
    return count * params.block_y if params.apart else count
