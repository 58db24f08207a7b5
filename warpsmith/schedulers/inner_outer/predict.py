"""What is to be done with a call's rows beside sums of columns, and how long that takes."""

from __future__ import annotations

from collections.abc import Callable

from warpsmith.schedulers.caching import past_l1
from warpsmith.schedulers.inner_outer.rows import Rows, length_of, row_count
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows.model import Work
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.rows.predict import class_of, predicted


def predictor(rows: Rows, problem: Problem) -> Callable[[RowParams], float]:
    """From parameters to microseconds of both kernels, with as many rows as the class of the call's
    count has.
    """
    work = Work(
        rows=class_of(row_count(rows, problem), problem.target),
        length=length_of(rows, problem),
        loaded=rows.loaded,
        stored=rows.stored,
        item=max((cached.memory.dtype.size for cached in rows.loads), default=4),
        weights=0,
        stages=2,
        sums=rows.averaged,
        operations=rows.operations,
        costly=0,
        summed=rows.summed,
        evict_last=not past_l1(rows.full, problem),
    )
    return lambda params: predicted(work, params, problem.target)
