"""Rows beside sums of columns in waves of blocks, or with a role that loads them: which, and how.

The choice is the caller's (`Problem.warp_specialize`); nobody having chosen, it is waves.
"""

from __future__ import annotations

from warpsmith.schedulers.inner_outer import heuristic, specialized
from warpsmith.schedulers.inner_outer.heuristic import InnerOuterParams, Rows
from warpsmith.schedulers.normalization.resident import Choice
from warpsmith.schedulers.problem import Problem


def misfit(rows: Rows, residents: tuple[Choice, ...], problem: Problem) -> str:
    """Why a block cannot have the rows of a call; empty where it can."""
    if problem.warp_specialize is not True:
        return heuristic.misfit(rows, residents, problem)
    reason = specialized.refusal(rows, residents, problem)
    return reason and heuristic.misfit(rows, residents, problem) and reason


def choose(rows: Rows, residents: tuple[Choice, ...], problem: Problem) -> InnerOuterParams:
    """The parameters of a call that is no misfit."""
    if problem.warp_specialize is True and not specialized.refusal(rows, residents, problem):
        return specialized.choose(rows, residents, problem)
    return heuristic.choose(rows, residents, problem)


def no_ring(rows: Rows, residents: tuple[Choice, ...], problem: Problem) -> str:
    """Why rows are not loaded ahead through shared memory; empty where they are."""
    params = choose(rows, residents, problem)
    return "" if params.warp_specialize else heuristic.no_ring(rows, params, problem)
