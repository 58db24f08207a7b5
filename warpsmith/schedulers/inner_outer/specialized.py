"""When a role of its own loads rows beside sums of columns, and in which shape."""

from __future__ import annotations

from warpsmith.schedulers import specialized
from warpsmith.schedulers.inner_outer.heuristic import (
    InnerOuterParams,
    Rows,
    length_of,
    unfit_for_tiles,
)
from warpsmith.schedulers.normalization.resident import Choice
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.specialized import Streamed


def refusal(rows: Rows, residents: tuple[Choice, ...], problem: Problem) -> str:
    """Why the rows of a call cannot be loaded by a role; empty where they can."""
    return unfit_for_tiles(rows, problem) or specialized.refusal(
        _streamed(rows, residents, problem)
    )


def choose(rows: Rows, residents: tuple[Choice, ...], problem: Problem) -> InnerOuterParams:
    """The parameters of a call that is not refused."""
    streamed = _streamed(rows, residents, problem)
    found = specialized.shape_of(streamed)
    assert found is not None, "refusal was not asked"
    vector, whole = streamed.vector, found.whole(streamed)
    return InnerOuterParams(
        vector=vector,
        unroll=found.unroll,
        block_x=found.block_x,
        block_y=found.groups,
        blocks_per_sm=found.blocks_per_sm,
        whole=whole,
        row=0 if whole else streamed.length,
        late=False,
        again=found.again,
        vectorized=rows.run.vectorized(problem, vector),
        ring=found.stages,
        warp_specialize=True,
        reread=found.reread,
        weights_in_shared=found.weights_in_shared,
        joined=found.joined,
    )


def _streamed(rows: Rows, residents: tuple[Choice, ...], problem: Problem) -> Streamed:
    return Streamed(
        length=length_of(rows, problem),
        vector=rows.run.vector(problem),
        loaded=rows.loaded,
        summed=rows.summed,
        residents=residents,
    )
