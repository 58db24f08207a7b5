"""What is to be done with a call's rows, and how long kernels with certain parameters take."""

from __future__ import annotations

import math
from dataclasses import replace

from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows.applicability import stages
from warpsmith.schedulers.rows.model import MOST_FEW, least_in_turns, predicted_us
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.rows.rows import Rows
from warpsmith.schedulers.rows.work import Work
from warpsmith.targets.target import Target

MANY_ROWS = ((124, 62.06), (math.inf, 248.24))
ROW_CLASSES = ((4, 1.0), (24, 12.0), *MANY_ROWS)
"""Rows of a multiprocessor up to which parameters are chosen for so many of them. Calls with other
row counts take the same kernels; few bytes become many at one more."""

FEW_ROWS = (0.125, 0.25, 0.5, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, MOST_FEW)
"""The same where blocks have one row each: whether all blocks are there at once matters then."""

ROUND_CLASSES = (*((most, float(most)) for most in FEW_ROWS), *MANY_ROWS)


def class_of(rows: int, target: Target, *, beside: bool = False) -> int:
    """Rows that stand for those of a call; `beside` sums of columns, where blocks loop."""
    each, classes = rows / target.sm_count, ROW_CLASSES if beside else ROUND_CLASSES
    return round(next(count for most, count in classes if each <= most) * target.sm_count)


class Predictor:
    """Predicts a call's shapes, with as many rows as the class of its count has; with its own where
    rows lie in pieces: they are channels, of which a model has the same for all batches.
    """

    def __init__(self, rows: Rows, problem: Problem) -> None:
        cuts = max(stages(rows.alone).values(), default=0)
        beside, self._target = bool(rows.columns), problem.target
        count = rows.count(problem)
        work = Work(
            rows=count if rows.in_pieces else class_of(count, problem.target, beside=beside),
            length=rows.length(problem),
            loaded=rows.loaded,
            stored=rows.stored,
            item=max(rows.sizes, default=4),
            weights=0 if beside else sum(cached.memory.dtype.size for cached in rows.weights),
            stages=2 if beside else 1 + cuts,
            sums=len(rows.sums) if beside else cuts,
            operations=rows.operations if beside else 0,
            costly=0,
            summed=rows.summed,
            evict_last=not rows.past_l1(problem),
            in_pieces=rows.in_pieces,
        )
        self._work = {
            (choice.reload_weights, choice.again): work
            if beside
            else replace(work, operations=choice.operations, costly=choice.costly)
            for choice in rows.residents
        }

    def __call__(self, params: RowParams) -> float:
        """Microseconds from the launch to the end, of the kernel that adds sums of columns, too."""
        work = self._work[params.reload_weights, params.again]
        return predicted_us(work, params, self._target)

    def least_by_role(self) -> float:
        """Microseconds that no shape takes less than where a role loads the rows."""
        return least_in_turns(next(iter(self._work.values())), self._target)
