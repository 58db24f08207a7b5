"""What is to be done with a call's rows that are needed again, and how long that takes."""

from __future__ import annotations

import math

from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.program import Program
from warpsmith.schedulers.caching import Cached, past_l1
from warpsmith.schedulers.normalization.applicability import stages
from warpsmith.schedulers.normalization.resident import Choice, full_size, weights_of
from warpsmith.schedulers.normalization.rows import length_of, rows_of
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows.model import Work, least_in_turns
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.rows.predict import class_of, predicted


class Predictor:
    """Predicts a call's shapes, with as many rows as the class of its count has."""

    def __init__(
        self,
        fusion: Program,
        domains: DomainMap,
        caches: tuple[Cached, ...],
        residents: tuple[Choice, ...],
        problem: Problem,
    ) -> None:
        full = full_size(fusion, domains, caches)
        rows = [c for c in caches if c.register in full]
        kept = (axis for axis in rows_of(fusion, domains, caches).axes if not axis.is_reduction)
        count = math.prod(problem.size(axis.extent) for axis in kept)
        cuts = max(stages(fusion).values(), default=0)
        self._target = problem.target
        self._work = {
            (choice.reload_weights, choice.again): Work(
                rows=class_of(count, problem.target),
                length=length_of(fusion, problem),
                loaded=sum(c.memory.dtype.size for c in rows if c.load),
                stored=sum(c.memory.dtype.size for c in rows if not c.load),
                item=max((c.memory.dtype.size for c in rows if c.load), default=4),
                weights=sum(c.memory.dtype.size for c in weights_of(fusion, caches)),
                stages=1 + cuts,
                sums=cuts,
                operations=choice.operations,
                costly=choice.costly,
                summed=0,
                evict_last=not past_l1(caches, problem),
            )
            for choice in residents
        }

    def __call__(self, params: RowParams) -> float:
        """Microseconds from the launch to the end."""
        work = self._work[params.reload_weights, params.again]
        return predicted(work, params, self._target)

    def least_by_role(self) -> float:
        """Microseconds that no shape takes less than where a role loads the rows."""
        return least_in_turns(next(iter(self._work.values())), self._target)
