"""Rows that are needed again, and the parameters of their schedules."""

from __future__ import annotations

import math
from dataclasses import dataclass

from warpsmith.ir.domains import IterDomain
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.program import Program
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.layout import InnerRun, find_inner_run
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.applicability import reductions
from warpsmith.schedulers.reduction.heuristic import memory_ordered


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerPersistentParams:
    """A schedule whose rows stay in registers.

    Attributes:
        vector: adjacent elements per thread and access.
        unroll: accesses of a row and input per thread, all issued before the first use.
        rows_per_thread: rows of a thread, loaded and reduced together.
        cluster: blocks that share a row; 1 where it is one block's.
        block_x: threads of a block that a row has.
        block_y: rows that a block has side by side.
        blocks_per_sm: blocks that a multiprocessor holds at once.
        exact: the threads' vectors are exactly the row's, so that none needs a predicate.
        full: accesses of each thread that need none in any block, where threads have not exactly a
            row.
        reload_weights: inputs that all rows share are loaded where they are used, not at the start.
        again: costly values are computed again, where that takes fewer registers than to keep them.
        vectorized: names of the global tensors accessed in vectors.
        warp_specialize: a role loads rows into a ring while blocks go round them, and block_y are
            groups that take turns.
        ring: stages of it.
        reread: rows are read from shared memory again for each reduction, not kept in registers.
        weights_in_shared: what all rows share stays in shared memory, not in registers.
        row: elements of a row, of which all are copied at once, where threads have not exactly
            these; else 0.
        chunks: rows neither begin nor end at multiples of 16 bytes, and a role loads all of the
            16-byte chunks that a row lies in.
        streaming: loads of rows leave no copy in L1.
        evict_last: what they bring into the L2 is the last to go.
    """

    vector: int
    unroll: int
    rows_per_thread: int
    cluster: int
    block_x: int
    block_y: int
    blocks_per_sm: int
    exact: bool
    reload_weights: bool
    again: bool
    vectorized: tuple[str, ...]
    full: int = 0
    warp_specialize: bool = False
    ring: int = 0
    reread: bool = False
    weights_in_shared: bool = False
    row: int = 0
    chunks: bool = False
    streaming: bool = False
    evict_last: bool = False


@dataclass(frozen=True, slots=True)
class Rows:
    """The dimensions of the reductions in memory order, and the run that ends them.

    A row lies in several pieces where it has dimensions outside that run.
    """

    axes: tuple[IterDomain, ...]
    run: InnerRun

    @property
    def in_pieces(self) -> bool:
        run = len(self.run.axes) - self.run.start
        return sum(axis.is_reduction for axis in self.axes) > run


def rows_of(fusion: Program, domains: DomainMap, caches: tuple[Cached, ...]) -> Rows:
    """Order the dimensions as the largest input has them in memory."""
    axes = memory_ordered(domains, reductions(fusion)[0], caches)
    start = len(axes)
    while start and axes[start - 1].is_reduction:
        start -= 1
    return Rows(axes, find_inner_run(domains, axes[start:], caches))


def length_of(fusion: Program, problem: Problem) -> int:
    """Elements of a row."""
    reduced = (axis for axis in reductions(fusion)[0].logical if axis.is_reduction)
    return math.prod(problem.size(axis.extent) for axis in reduced)
