"""When a role of its own loads rows beside sums of columns, and in which shape."""

from __future__ import annotations

from warpsmith.schedulers import specialized
from warpsmith.schedulers.inner_outer.heuristic import RINGS_BYTES
from warpsmith.schedulers.inner_outer.predict import predictor
from warpsmith.schedulers.inner_outer.rows import (
    Rows,
    length_of,
    unfit_for_stages,
)
from warpsmith.schedulers.layout import spare_bytes
from warpsmith.schedulers.normalization.resident import Choice
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.specialized import Streamed


def refusal(rows: Rows, residents: tuple[Choice, ...], problem: Problem) -> str:
    """Why the rows of a call cannot be loaded by a role; empty where they can."""
    return unfit_for_stages(rows, problem) or specialized.refusal(
        _streamed(rows, residents, problem)
    )


def choose(rows: Rows, residents: tuple[Choice, ...], problem: Problem) -> RowParams | None:
    """The parameters predicted to take the least time; None where `refusal` says why not."""
    streamed = _streamed(rows, residents, problem)
    if unfit_for_stages(rows, problem) or streamed.length == 0:
        return None
    time, vectorized = predictor(rows, problem), rows.run.vectorized(problem, streamed.vector)
    found = specialized.fastest(
        streamed,
        lambda shape: time(shape.params(streamed, vectorized)),
        rings_bytes=RINGS_BYTES,
    )
    return None if found is None else found.params(streamed, vectorized)


def _streamed(rows: Rows, residents: tuple[Choice, ...], problem: Problem) -> Streamed:
    length = length_of(rows, problem)
    spare = spare_bytes(rows.loads, length, problem)
    return Streamed(
        length=length,
        vector=rows.run.vector(problem),
        loaded=rows.loaded,
        summed=rows.summed,
        residents=residents,
        limits=problem.target.family.limits,
        weights_fit=rows.weights_fit and not spare,
        spare=spare,
    )
