"""When a role of its own loads rows beside sums of columns, and in which shape."""

from __future__ import annotations

from collections.abc import Callable

from warpsmith.schedulers import specialized
from warpsmith.schedulers.inner_outer.heuristic import RINGS_BYTES
from warpsmith.schedulers.inner_outer.predict import predictor
from warpsmith.schedulers.inner_outer.rows import (
    InnerOuterParams,
    Rows,
    fit_for_chunks,
    length_of,
    spare_bytes,
    unfit_for_tiles,
)
from warpsmith.schedulers.normalization.resident import Choice
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.specialized import Shape, Streamed


def refusal(rows: Rows, residents: tuple[Choice, ...], problem: Problem) -> str:
    """Why the rows of a call cannot be loaded by a role; empty where they can."""
    return _unfit(rows, problem) or specialized.refusal(_streamed(rows, residents, problem))


def choose(rows: Rows, residents: tuple[Choice, ...], problem: Problem) -> InnerOuterParams | None:
    """The parameters predicted to take the least time; None where `refusal` says why not."""
    streamed = _streamed(rows, residents, problem)
    if _unfit(rows, problem) or streamed.length == 0:
        return None
    time, made = predictor(rows, problem), _maker(rows, problem)
    found = specialized.fastest(streamed, lambda shape: time(made(shape)), rings_bytes=RINGS_BYTES)
    return None if found is None else made(found)


def _unfit(rows: Rows, problem: Problem) -> str:
    """Why the TMA unit cannot bring rows, whole or in chunks; empty where it can."""
    return "" if fit_for_chunks(rows, problem) else unfit_for_tiles(rows, problem)


def _maker(rows: Rows, problem: Problem) -> Callable[[Shape], InnerOuterParams]:
    """From a shape to the parameters of a call."""
    vector, length = rows.run.vector(problem), length_of(rows, problem)
    vectorized = rows.run.vectorized(problem, vector)
    chunks = fit_for_chunks(rows, problem)

    def made(shape: Shape) -> InnerOuterParams:
        whole = shape.block_x * shape.unroll * vector == length
        return InnerOuterParams(
            vector=vector,
            unroll=shape.unroll,
            block_x=shape.block_x,
            block_y=shape.groups,
            blocks_per_sm=shape.blocks_per_sm,
            whole=whole,
            row=0 if whole else length,
            late=False,
            again=shape.again,
            vectorized=vectorized,
            ring=shape.stages,
            warp_specialize=True,
            kept_unroll=shape.kept_unroll,
            reread=shape.reread,
            weights_in_shared=shape.weights_in_shared,
            joined=shape.joined,
            chunks=chunks,
        )

    return made


def _streamed(rows: Rows, residents: tuple[Choice, ...], problem: Problem) -> Streamed:
    spare = spare_bytes(rows) if fit_for_chunks(rows, problem) else 0
    return Streamed(
        length=length_of(rows, problem),
        vector=rows.run.vector(problem),
        loaded=rows.loaded,
        summed=rows.summed,
        residents=residents,
        weights_fit=rows.weights_fit and not spare,
        spare=spare,
    )
