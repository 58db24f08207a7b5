"""Rows beside sums of columns in waves of blocks, or with a role that loads them: which, and how.

The choice is the caller's (`Problem.warp_specialize`), or else what is predicted to take less time.
"""

from __future__ import annotations

from dataclasses import replace

from warpsmith.schedulers.caching import past_l1
from warpsmith.schedulers.inner_outer import heuristic, specialized
from warpsmith.schedulers.inner_outer.predict import predictor
from warpsmith.schedulers.inner_outer.random import draws_ahead
from warpsmith.schedulers.inner_outer.rows import (
    RING_ROW_BYTES,
    Rows,
    interval_of,
    unfit_for_stages,
)
from warpsmith.schedulers.normalization.resident import Choice
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows.params import RowParams


def unsupported_sizes(rows: Rows, residents: tuple[Choice, ...], problem: Problem) -> str:
    """Why a block cannot have the rows of a call; empty where it can."""
    if not rows.loads:
        return "no input has an element for each one of the rows"
    reason = heuristic.unsupported_sizes(rows, residents, problem)
    if not reason or problem.warp_specialize is False:
        return reason
    return "" if specialized.choose(rows, residents, problem) else reason


def choose(rows: Rows, residents: tuple[Choice, ...], problem: Problem) -> RowParams:
    """The parameters of a call whose sizes are supported."""
    found = candidates(rows, residents, problem)
    fastest = min(found, key=predictor(rows, problem))
    return replace(
        fastest,
        evict_last=not past_l1(rows.full, problem),
        interval=interval_of(rows, fastest, problem),
        drawn_first=draws_ahead(rows, fastest),
    )


def candidates(
    rows: Rows, residents: tuple[Choice, ...], problem: Problem
) -> tuple[RowParams, ...]:
    """The best of each strategy that the caller allows and the call permits, waves first.

    Nobody having chosen, no role loads rows that waves are not to load ahead: short ones, and what
    the knob `rings` says.
    """
    asked, least = problem.warp_specialize, RING_ROW_BYTES
    short = problem.rings == "never" or bool(unfit_for_stages(rows, problem, least))
    waves = heuristic.best(rows, residents, problem)
    roles = None
    if asked is True or (asked == "auto" and not (waves is not None and short)):
        roles = specialized.choose(rows, residents, problem)
    if roles is None:
        assert waves is not None, "sizes are supported where this is asked"
        return (waves,)
    if asked != "auto" or waves is None:
        return (roles,)
    return waves, roles


def no_ring(rows: Rows, residents: tuple[Choice, ...], problem: Problem) -> str:
    """Why rows are not loaded ahead through shared memory; empty where they are."""
    params = choose(rows, residents, problem)
    return "" if params.warp_specialize else heuristic.no_ring(rows, params, problem)
