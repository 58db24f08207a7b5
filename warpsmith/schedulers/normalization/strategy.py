"""Rows in waves of blocks, or with a role that loads them: which, and how.

The choice is the caller's (`Problem.warp_specialize`), or else what is predicted to take less time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.program import Program
from warpsmith.schedulers import specialized
from warpsmith.schedulers.caching import Cached, past_l1
from warpsmith.schedulers.layout import spare_bytes, unfit_for_bulk
from warpsmith.schedulers.normalization import heuristic
from warpsmith.schedulers.normalization.predict import Predictor
from warpsmith.schedulers.normalization.resident import (
    Choice,
    choices,
    full_size,
    role_may_share,
    weights_of,
)
from warpsmith.schedulers.normalization.rows import length_of, rows_of
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.specialized import Streamed

RINGS_BYTES = (specialized.RING_BYTES, 2 * specialized.RING_BYTES)
"""Bytes of rows that a multiprocessor's stages may hold: more groups need more of them."""

ROLE_ROW_BYTES = 1024
"""Rows of fewer bytes are loaded by the threads: one thread asks for each of them apart."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A fusion with its caches, and the ways to keep a row where a block has one."""

    fusion: Program
    domains: DomainMap
    caches: tuple[Cached, ...]
    residents: tuple[Choice, ...]


def unsupported_sizes(asked: Asked, problem: Problem) -> str:
    """Why a block cannot have the rows of a call; empty where it can."""
    given = asked.fusion, asked.domains, asked.caches, asked.residents, problem
    if problem.warp_specialize is not True:
        return heuristic.unsupported_sizes(*given)
    reason = unspecialized(asked, problem)
    return reason and heuristic.unsupported_sizes(*given) and reason


def unspecialized(asked: Asked, problem: Problem) -> str:
    """Why the rows of a call cannot be loaded by a role; empty where they can."""
    return _unfit(asked, problem) or specialized.refusal(_streamed(asked, problem))


def _unfit(asked: Asked, problem: Problem, least: int = 16) -> str:
    """Why no role can load such rows, in copies of `least` bytes or more, whatever its shape."""
    rows = rows_of(asked.fusion, asked.domains, asked.caches)
    if not any(not axis.is_reduction for axis in rows.axes):
        return "all is one row"
    if rows.in_pieces:
        return "rows lie in several pieces"
    loads = _row_loads(asked)
    if not loads:
        return "no input has an element for each one of the rows"
    along = {cached.name for cached in rows.run.walkers}
    if across := [cached.name for cached in loads if cached.name not in along]:
        return f"{across[0]} does not have its rows along its fastest dimension"
    return unfit_for_bulk(loads, length_of(asked.fusion, problem), problem, least)


def choose(asked: Asked, problem: Problem) -> tuple[RowParams, int]:
    """Parameters of a call whose sizes are supported, and how many blocks go round; or 0."""
    found = candidates(asked, problem, hopeless=False)
    params = min(found, key=lambda each: each[1])[0]
    return params, blocks(asked, params, problem) if params.warp_specialize else 0


def candidates(
    asked: Asked, problem: Problem, *, hopeless: bool = True
) -> tuple[tuple[RowParams, float], ...]:
    """The best of each strategy that the caller allows and the call permits, waves first, and the
    microseconds that it is predicted to take with many rows.

    Nobody having chosen, no role loads short rows, nor any where the knob `rings` says never. Not
    `hopeless`, none is looked for where the model has it behind waves whatever its shape.
    """
    given = asked.fusion, asked.domains, asked.caches, asked.residents, problem
    predictor = Predictor(*given)
    if problem.warp_specialize is True:
        roles = _by_role(asked, predictor, problem)
        if roles is not None:
            return (roles,)
    waves = heuristic.choose(*given, predictor)
    found = ((waves, predictor(waves)),)
    if problem.warp_specialize != "auto" or problem.rings == "never":
        return found
    narrow = heuristic.is_narrow(waves.vector, [c.memory.dtype.size for c in _row_loads(asked)])
    if not hopeless and (not narrow or found[0][1] <= predictor.least_by_role()):
        return found
    roles = _by_role(asked, predictor, problem)
    return found if roles is None else (*found, roles)


def _by_role(
    asked: Asked, predictor: Predictor, problem: Problem
) -> tuple[RowParams, float] | None:
    """The fastest way to have rows loaded by a role; None where none can load them."""
    streamed = _streamed(asked, problem)
    least = 16 if problem.warp_specialize is True else ROLE_ROW_BYTES
    if _unfit(asked, problem, least) or streamed.length == 0:
        return None
    run = rows_of(asked.fusion, asked.domains, asked.caches).run
    vectorized = run.vectorized(problem, streamed.vector)
    found = specialized.fastest(
        streamed,
        lambda shape: predictor(shape.params(streamed, vectorized)),
        most_kept=1,
        rings_bytes=RINGS_BYTES,
    )
    if found is None:
        return None
    params = found.params(streamed, vectorized)
    return replace(params, evict_last=not past_l1(asked.caches, problem)), predictor(params)


def blocks(asked: Asked, params: RowParams, problem: Problem) -> int:
    """Blocks that go round the rows: all that run at once, unless there are fewer rows."""
    axes = rows_of(asked.fusion, asked.domains, asked.caches).axes
    kept = math.prod(problem.size(axis.extent) for axis in axes if not axis.is_reduction)
    wanted = params.blocks_per_sm * problem.target.sm_count
    return max(1, min(wanted, -(-kept // (params.block_y * params.rows_per_thread))))


def _row_loads(asked: Asked) -> list[Cached]:
    """The inputs that have an element for each one of the rows."""
    full = full_size(asked.fusion, asked.domains, asked.caches)
    return [c for c in asked.caches if c.load and c.register in full]


def _streamed(asked: Asked, problem: Problem) -> Streamed:
    loads, weights = _row_loads(asked), weights_of(asked.fusion, asked.caches)
    rows = rows_of(asked.fusion, asked.domains, asked.caches)
    run = [axis for axis in rows.axes if axis.is_reduction]
    length = length_of(asked.fusion, problem)
    spare = spare_bytes(loads, length, problem)
    return Streamed(
        length=length,
        vector=rows.run.vector(problem),
        loaded=sum(cached.memory.dtype.size for cached in loads),
        summed=0,
        residents=choices(asked.fusion, asked.caches, turns=True),
        limits=problem.target.family.limits,
        widened=len(loads),
        weights_fit=not spare and role_may_share(asked.fusion, asked.domains, loads, weights, run),
        spare=spare,
    )
