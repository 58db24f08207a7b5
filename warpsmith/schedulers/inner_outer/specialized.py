"""When a role of its own loads rows beside sums of columns, and in which shape."""

from __future__ import annotations

from collections.abc import Callable

from warpsmith.schedulers import specialized
from warpsmith.schedulers.inner_outer.heuristic import RINGS_BYTES
from warpsmith.schedulers.inner_outer.predict import predictor
from warpsmith.schedulers.inner_outer.rows import (
    InnerOuterParams,
    Rows,
    length_of,
    unfit_for_stages,
)
from warpsmith.schedulers.layout import spare_bytes
from warpsmith.schedulers.normalization.resident import Choice
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.specialized import Shape, Streamed


def refusal(rows: Rows, residents: tuple[Choice, ...], problem: Problem) -> str:
    """Why the rows of a call cannot be loaded by a role; empty where they can."""
    return unfit_for_stages(rows, problem) or specialized.refusal(
        _streamed(rows, residents, problem)
    )


def choose(rows: Rows, residents: tuple[Choice, ...], problem: Problem) -> InnerOuterParams | None:
    """The parameters predicted to take the least time; None where `refusal` says why not."""
    streamed = _streamed(rows, residents, problem)
    if unfit_for_stages(rows, problem) or streamed.length == 0:
        return None
    time, made = predictor(rows, problem), _maker(rows, streamed, problem)
    found = specialized.fastest(streamed, lambda shape: time(made(shape)), rings_bytes=RINGS_BYTES)
    return None if found is None else made(found)


def _maker(rows: Rows, streamed: Streamed, problem: Problem) -> Callable[[Shape], InnerOuterParams]:
    """From a shape to the parameters of a call."""
    vectorized = rows.run.vectorized(problem, streamed.vector)

    def made(shape: Shape) -> InnerOuterParams:
        whole = shape.exact(streamed)
        return InnerOuterParams(
            vector=streamed.vector,
            unroll=shape.unroll,
            block_x=shape.block_x,
            block_y=shape.groups,
            blocks_per_sm=shape.blocks_per_sm,
            exact=whole,
            row=0 if whole else streamed.length,
            reload_weights=False,
            again=shape.again,
            vectorized=vectorized,
            ring=shape.stages,
            warp_specialize=True,
            rows_per_thread=shape.rows_per_thread,
            reread=shape.reread,
            weights_in_shared=shape.weights_in_shared,
            joined=shape.joined,
            chunks=streamed.spare > 0,
        )

    return made


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
