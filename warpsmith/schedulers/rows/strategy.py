"""Rows in waves of blocks, or with a role that loads them: which, and how.

The choice is the caller's (`Problem.warp_specialize`), or else what is predicted to take less time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from warpsmith.schedulers.multiprocessor import CLUSTERS
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows import once, role, turns
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.rows.predict import Predictor
from warpsmith.schedulers.rows.rows import Rows

MOST_ADDED = 1024
"""Rows that a thread adds to a running sum, whose error grows with the root of their number: with
3800 of a million rows it was twice that of PyTorch's sums."""

PACE = 0.9
"""Of what the memory moves by its clock: as much as the fastest kernels get. Blocks that ask for
more drift apart, and then the memory moves less (docs/lessons/norms_backward.md)."""

PACED_BYTES, MOST_PACED_SUMS = 100_000_000, 1
"""Bytes of a tensor of full size, and sums of a row, from which on and up to which that counts:
with two sums, a turn computes for as long as the memory takes."""


def unsupported_sizes(rows: Rows, problem: Problem) -> str:
    """Why no block can have the rows of a call; empty where one can."""
    length = rows.length(problem)
    if rows.columns and not rows.loads:
        return role.NO_LOADS
    if length == 0:
        return "its rows are empty"
    if next(iter(_in_waves(rows, problem)), None) is not None:
        return ""
    asked = problem.warp_specialize
    if asked is not False and role.choose(rows, problem, Predictor(rows, problem)) is not None:
        return ""
    if asked is True:
        return role.refusal(rows, problem)
    sums = " and the sums of their columns" if rows.columns else ""
    most = problem.target.runs(CLUSTERS)[-1]
    return f"rows of {length} elements{sums} do not fit in the registers of {most} blocks"


def choose(rows: Rows, problem: Problem) -> RowParams:
    """The parameters of a call whose sizes are supported."""
    fastest, _ = min(candidates(rows, problem, hopeless=False), key=lambda each: each[1])
    return finished(rows, fastest, problem)


def finished(rows: Rows, params: RowParams, problem: Problem) -> RowParams:
    """A shape, with what else follows from the call."""
    return replace(
        params,
        streaming=rows.streams(problem) and not params.warp_specialize,
        evict_last=not rows.past_l1(problem),
        interval=interval_of(rows, params, problem),
    )


def considered(rows: Rows, problem: Problem) -> list[tuple[float, RowParams]]:
    """All shapes that the caller allows and the call permits, behind the microseconds that they are
    predicted to take.
    """
    predictor, found = Predictor(rows, problem), list[RowParams]()
    asked = problem.warp_specialize is True and not role.refusal(rows, problem)
    if asked or _free(problem):
        found += role.shapes(rows, problem, 16 if asked else role.LEAST_BYTES)
    if not asked:
        found += _in_waves(rows, problem)
    return [(predictor(params), params) for params in found]


def _free(problem: Problem) -> bool:
    """Whether a role may load rows that waves could, nobody having said who is to."""
    return problem.warp_specialize == "auto" and problem.rings != "never"


def candidates(
    rows: Rows, problem: Problem, *, hopeless: bool = True
) -> tuple[tuple[RowParams, float], ...]:
    """The best of each strategy that the caller allows and the call permits, waves first, and the
    microseconds that it is predicted to take with many rows.

    Nobody having chosen, no role loads rows that waves are not to load ahead: short ones, and what
    the knob `rings` says. Not `hopeless`, none is looked for where the model has it behind waves
    whatever its shape.
    """
    asked, predictor = problem.warp_specialize, Predictor(rows, problem)
    if asked is True:
        by_role = role.choose(rows, problem, predictor)
        if by_role is not None:
            return ((by_role, predictor(by_role)),)
    waves = min(_in_waves(rows, problem), key=predictor, default=None)
    found = () if waves is None else ((waves, predictor(waves)),)
    if waves is not None and not _free(problem):
        return found
    if waves is not None and not (hopeless or rows.columns):
        narrow = waves.across or once.is_narrow(waves.vector, rows.sizes)
        if not narrow or predictor(waves) <= predictor.least_by_role():
            return found
    by_role = role.choose(rows, problem, predictor, 16 if waves is None else role.LEAST_BYTES)
    return found if by_role is None else (*found, (by_role, predictor(by_role)))


def in_waves_us(rows: Rows, problem: Problem) -> float:
    """Microseconds that the best way without a role is predicted to take; infinite without one."""
    return min(map(Predictor(rows, problem), _in_waves(rows, problem)), default=math.inf)


def _in_waves(rows: Rows, problem: Problem) -> Iterable[RowParams]:
    """The ways without a role; none where there is nothing to keep."""
    if rows.length(problem) == 0:
        return ()
    return turns.candidates(rows, problem) if rows.columns else once.candidates(rows, problem)


def no_ring(rows: Rows, problem: Problem) -> str:
    """Why rows are not loaded ahead through shared memory; empty where they are."""
    params = choose(rows, problem)
    if params.ring:
        return ""
    if rows.columns:
        return turns.no_ring(rows, params, problem)
    return "a block has one row, which its threads load at once"


def blocks(rows: Rows, params: RowParams, problem: Problem) -> int:
    """Blocks, or clusters, that loop over the rows: all that run at once, unless there are fewer
    rows, or so many that a thread would add too many to one sum. One that is not among those that
    run at once begins when they have ended, and takes as long again.

    Beside sums of columns, as few as take no more turns: the others' sums would be added, too.
    """
    kept = rows.count(problem)
    wanted = params.blocks_per_sm * problem.target.teams(params.cluster)
    if params.across:  # rows of a block begin equally far behind a vector then
        wanted = max(1, wanted // params.vector) * params.vector
    count = max(1, min(wanted, -(-kept // params.at_once)))
    if rows.columns:
        turns = max(1, -(-kept // (count * params.at_once)))
        count = max(1, -(-kept // (turns * params.at_once)))
        count *= max(1, -(-kept // (count * params.block_y * MOST_ADDED)))
        count *= params.block_y if params.apart else 1
        if params.across:
            count += -count % params.vector
    return count


def interval_of(rows: Rows, params: RowParams, problem: Problem) -> int:
    """Nanoseconds that the memory takes for a turn's rows of all blocks at `PACE`; 0 where blocks
    are not to be held back: the caller's word, few bytes, roles, and turns that compute for as long
    as the memory takes.
    """
    row = rows.length(problem) * (rows.loaded + rows.stored)
    by_stages = params.ring and not (params.warp_specialize or params.by_threads)
    free = not by_stages or len(rows.sums) > MOST_PACED_SUMS
    if free or not problem.pace or rows.count(problem) * row < PACED_BYTES * len(rows.full):
        return 0
    turn = params.blocks_per_sm * problem.target.teams(params.cluster) * params.at_once * row
    return round(1000 * turn / (PACE * problem.target.rates.memory))
