"""How long a call's rows that are needed again take: what the model says, and what timings add."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, lru_cache

from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.program import Program
from warpsmith.schedulers import specialized
from warpsmith.schedulers.caching import Cached, past_l1
from warpsmith.schedulers.normalization.applicability import stages
from warpsmith.schedulers.normalization.model import (
    Shape,
    Work,
    least_by_role,
    least_in_waves,
    predicted_us,
)
from warpsmith.schedulers.normalization.narrow import (
    ALONE_TIMES,
    is_narrow,
    narrow_loss,
    narrow_time,
)
from warpsmith.schedulers.normalization.resident import Choice, full_size, weights_of
from warpsmith.schedulers.normalization.rows import InnerPersistentParams, length_of, rows_of
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.timed import UNTIMED, Timing, correction, nearest, ratios, timings
from warpsmith.targets.target import Target

ROWS_PER_SM = 62
"""For which shapes are chosen: calls take the same kernel for any number of rows, unless it makes
few bytes many. Where shapes were timed, it is for as many rows as these had, so that what was
measured to be faster is taken for it."""

_WORKS_KEPT = 64


class Predictor:
    """Predicts a call's shapes."""

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
        order = rows_of(fusion, domains, caches)
        vector = order.run.vector(problem)
        self._sizes = tuple(c.memory.dtype.size for c in rows if c.load)
        self._access = vector * max(self._sizes, default=4)
        self._shared = len(weights_of(fusion, caches))
        self._narrow = not order.in_pieces and is_narrow(vector, self._sizes)
        self._target = problem.target
        self._length = length_of(fusion, problem)
        cuts, evict_last = max(stages(fusion).values(), default=0), not past_l1(caches, problem)
        work = {
            (choice.reload_weights, choice.again): Work(
                rows=ROWS_PER_SM * self._target.sm_count,
                length=self._length,
                loaded=sum(c.memory.dtype.size for c in rows if c.load),
                stored=sum(c.memory.dtype.size for c in rows if not c.load),
                stages=1 + cuts,
                operations=choice.operations,
                costly=choice.costly,
                evict_last=evict_last,
            )
            for choice in residents
        }
        works = tuple(work.values())
        self._learned = learned(works, self._target)
        near = next((timing.work.rows for timing in timed_near(works, self._target)), works[0].rows)
        self._work = {way: replace(each, rows=near) for way, each in work.items()}

    def waves(self, params: InnerPersistentParams) -> float:
        """Microseconds of blocks that have a row each, or a part of one; of narrow accesses those
        that the best shape would take, times what this one loses against it.
        """
        shape = Shape(
            threads=params.block_x,
            elements=params.rows_per_thread * params.unroll * params.vector,
            at_once=params.blocks_per_sm * params.block_y * params.rows_per_thread,
            cluster=params.cluster,
            reload_weights=params.reload_weights and not params.weights_in_shared,
            again=params.again,
            masked=not params.exact,
            shared=params.weights_in_shared,
        )
        if not self._narrow or shape in self._learned:
            return self._us(self._work[params.reload_weights, params.again], shape)
        loss = narrow_loss(params, self._sizes, self._length)
        return self._best_narrow * loss * (UNTIMED if self._learned else 1.0)

    def fastest_waves(self, params: InnerPersistentParams) -> float:
        """The same of parameters that `waves` has before all others: the loss of narrow accesses
        tells shapes apart, and says nothing of the best one.
        """
        if not self._narrow or self._learned:
            return self.waves(params)
        return self._best_narrow * (ALONE_TIMES if params.blocks_per_sm == 1 else 1.0)

    @cached_property
    def _best_narrow(self) -> float:
        """Of the best shape of narrow accesses, of which the model knows how much they move; where
        shapes were timed, none that was not is better than these.
        """
        work = next(iter(self._work.values()))
        timed = (self._us(work, shape) for shape in self._learned if not shape.role)
        untimed = least_in_waves(work, self._target) * narrow_time(self._access, self._shared)
        return max(untimed, min(timed, default=0.0))

    def least_by_role(self) -> float:
        """Microseconds that no shape takes less than where a role loads the rows."""
        least = least_by_role(next(iter(self._work.values())), self._target)
        roles = [ratio for shape, ratio in self._learned.items() if shape.role]
        return least * min((UNTIMED, *roles)) if self._learned else least

    def role(self, found: specialized.Shape, streamed: specialized.Streamed) -> float:
        """Microseconds of blocks whose rows a role loads."""
        elements = found.rows_per_thread * found.unroll * streamed.vector
        shape = Shape(
            threads=found.block_x,
            elements=elements,
            at_once=found.blocks_per_sm * found.groups * found.rows_per_thread,
            masked=not found.exact(streamed),
            role=True,
            reread=found.reread,
            blocks=found.blocks_per_sm,
            accesses=found.unroll if streamed.spare else 0,
        )
        return self._us(self._work[False, found.again], shape)

    def _us(self, work: Work, shape: Shape) -> float:
        return predicted_us(work, shape, self._target) * correction(self._learned, shape)


@lru_cache(maxsize=_WORKS_KEPT)
def learned(works: tuple[Work, ...], target: Target) -> Mapping[Shape, float]:
    """What was measured over what is predicted, for shapes that were timed at such works."""
    timed = timed_near(works, target)
    return ratios(timed, lambda work, shape: predicted_us(work, shape, target))


@lru_cache(maxsize=_WORKS_KEPT)
def timed_near(works: tuple[Work, ...], target: Target) -> tuple[Timing[Work, Shape], ...]:
    """Timings of such works, of the number of rows that comes nearest to theirs."""
    return nearest(timings(__package__, Work, Shape, target, works), works)
