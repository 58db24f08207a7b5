"""Rows in waves of blocks, or with a role that loads them: which, and how.

The choice is the caller's (`Problem.warp_specialize`); nobody having chosen, it is waves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap
from warpsmith.schedulers import specialized
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.layout import unfit_for_copies
from warpsmith.schedulers.normalization import heuristic
from warpsmith.schedulers.normalization.heuristic import InnerPersistentParams, rows_of
from warpsmith.schedulers.normalization.resident import Choice, choices, full_size
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.can import reductions
from warpsmith.schedulers.specialized import Streamed


@dataclass(frozen=True, slots=True)
class Asked:
    """A fusion with its caches, and the ways to keep a row where a block has one."""

    fusion: Fusion
    domains: DomainMap
    caches: tuple[Cached, ...]
    residents: tuple[Choice, ...]


def misfit(asked: Asked, problem: Problem) -> str:
    """Why a block cannot have the rows of a call; empty where it can."""
    given = asked.fusion, asked.domains, asked.caches, asked.residents, problem
    if problem.warp_specialize is not True:
        return heuristic.misfit(*given)
    reason = unspecialized(asked, problem)
    return reason and heuristic.misfit(*given) and reason


def unspecialized(asked: Asked, problem: Problem) -> str:
    """Why the rows of a call cannot be loaded by a role; empty where they can."""
    rows = rows_of(asked.fusion, asked.domains, asked.caches)
    if not any(not axis.is_reduction for axis in rows.axes):
        return "all is one row"
    if rows.in_pieces:
        return "rows lie in several pieces"
    full = full_size(asked.fusion, asked.domains, asked.caches)
    loads = [c for c in asked.caches if c.load and id(c.register) in full]
    if not loads:
        return "no input has an element for each one of the rows"
    reason = unfit_for_copies(loads, _length(asked, problem), problem)
    return reason or specialized.refusal(_streamed(asked, problem))


def choose(asked: Asked, problem: Problem) -> tuple[InnerPersistentParams, int]:
    """The parameters of a call that is no misfit, and how many blocks go round; 0 where none do."""
    if problem.warp_specialize is not True or unspecialized(asked, problem):
        given = asked.fusion, asked.domains, asked.caches, asked.residents, problem
        return heuristic.choose(*given), 0
    streamed = _streamed(asked, problem)
    found = specialized.shape_of(streamed)
    assert found is not None
    whole = found.whole(streamed)
    rows = rows_of(asked.fusion, asked.domains, asked.caches)
    vector = rows.run.vector(problem)
    params = InnerPersistentParams(
        vector=vector,
        unroll=found.unroll,
        kept_unroll=1,
        cluster=1,
        block_x=found.block_x,
        block_y=found.groups,
        blocks_per_sm=found.blocks_per_sm,
        whole=whole,
        row=0 if whole else streamed.length,
        late=False,
        again=found.again,
        vectorized=rows.run.vectorized(problem, vector),
        warp_specialize=True,
        ring=found.stages,
        reread=found.reread,
        weights_in_shared=found.weights_in_shared,
    )
    return params, blocks(asked, params, problem)


def blocks(asked: Asked, params: InnerPersistentParams, problem: Problem) -> int:
    """Blocks that go round the rows: all that run at once, unless there are fewer rows."""
    axes = rows_of(asked.fusion, asked.domains, asked.caches).axes
    kept = math.prod(problem.size(axis.extent) for axis in axes if not axis.is_reduction)
    wanted = params.blocks_per_sm * problem.target.sm_count
    return max(1, min(wanted, -(-kept // (params.block_y * params.kept_unroll))))


def _streamed(asked: Asked, problem: Problem) -> Streamed:
    full = full_size(asked.fusion, asked.domains, asked.caches)
    loads = [c for c in asked.caches if c.load and id(c.register) in full]
    return Streamed(
        length=_length(asked, problem),
        vector=rows_of(asked.fusion, asked.domains, asked.caches).run.vector(problem),
        loaded=sum(cached.memory.dtype.size for cached in loads),
        summed=0,
        residents=choices(asked.fusion, asked.caches, turns=True),
    )


def _length(asked: Asked, problem: Problem) -> int:
    """Elements of a row."""
    reduced = (axis for axis in reductions(asked.fusion)[0].logical if axis.is_reduction)
    return math.prod(problem.size(axis.extent) for axis in reduced)
