"""How a program is cut into kernels for each call, and what of that is kept."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from warpsmith.engine.allocations import pitches_of
from warpsmith.engine.bind import Form
from warpsmith.engine.contiguous import Dimensions
from warpsmith.engine.decisions import Decision, decision_of, remember
from warpsmith.engine.plan import (
    added,
    agreed,
    plan,
    plan_prepared,
    prepare,
    require_roles,
    unsupported_segments,
)
from warpsmith.engine.planned import NoKernelError, PlannedSegment
from warpsmith.errors import PlanWarning, WarpsmithError
from warpsmith.ir.fusion import Fusion
from warpsmith.knobs import Knobs
from warpsmith.planner.decided import NOTHING, Decided
from warpsmith.planner.epilogues import Offers
from warpsmith.planner.operands import NO_PACKING, Packing, packing
from warpsmith.planner.prices import Plan
from warpsmith.planner.segment import Unfit
from warpsmith.planner.trials import faster
from warpsmith.runtime.kept import CUTS
from warpsmith.runtime.recent import Recent
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.target import Target

REFUSALS = (WarpsmithError, NoKernelError, PlanWarning)
"""What planning a call, and making its kernels, may raise; warnings where they are errors."""

CutForm = tuple[Form, Dimensions, Target]
"""What decides what is planned: reshapes that are left out, dimensions that lie contiguous, and the
target."""

_Cut = tuple[CutForm, tuple[Unfit, ...], Packing, frozenset[int], Decided]
"""What decides how a program is cut: its form, schedulers that are left out, operands that are
copied, numbers of the tensors that have no elements, and what is otherwise than its structure
says."""


class Cuts:
    """The cuts of one program that were asked for so far.

    Args:
        scheduled: the user laid the schedule, so nothing is cut.
    """

    def __init__(self, *, scheduled: bool) -> None:
        self._scheduled = scheduled
        self._segments: Recent[_Cut, tuple[PlannedSegment, ...]] = Recent(CUTS)
        self._prepared: Recent[CutForm, Offers] = Recent(CUTS)

    def fitting(
        self,
        fusion: Fusion,
        problem: Problem,
        form: CutForm,
        without: tuple[Unfit, ...],
        empty: frozenset[int],
        failed: frozenset[Decided],
        knobs: Knobs,
    ) -> tuple[tuple[PlannedSegment, ...], Decided]:
        """Segments of which each can take a call, and what was decided for them: schedulers that
        cannot are left out, and what is tried, too, where it has `failed` or cannot be planned.
        """
        chosen, program = NO_PACKING, None
        if not self._scheduled:
            program = self.program(fusion, form)
            chosen = packing(program.graph, problem)

        def planned(
            decided: Decided,
        ) -> tuple[tuple[PlannedSegment, ...], Problem, tuple[Unfit, ...]]:
            key = (form, without, chosen, empty, decided)
            segments = self._segments.get(key)
            if segments is None:
                segments = self._segments.put(key, self._cut(fusion, *key))
            pitches = pitches_of(segments, problem.values)
            padded = replace(problem, values={**problem.values, **pitches})
            return segments, padded, unsupported_segments(segments, padded)

        def tried(decided: Decided) -> Plan | None:
            if decided in failed:
                return None
            try:
                segments, padded, found = planned(decided)
                values = padded.values if found else {**padded.values, **agreed(segments, padded)}
            except REFUSALS:
                if decided == NOTHING:
                    raise
                return None
            return None if found else (segments, replace(padded, values=values))

        searched = None if 0 in problem.values.values() else program
        first = not (without or empty or failed) and problem.warp_specialize is not True
        kept = searched.graph if searched is not None and first else None
        if kept is not None and (known := decision_of(kept, problem, knobs)) is not None:
            without = known.without
            with suppress(Exception):  # whatever is wrong with it, it is decided again
                segments, _, found = planned(known.decided)
                if not found:
                    return segments, known.decided
            without = ()
        while found := planned(NOTHING)[2]:
            without = added(without, found)
        decided = NOTHING
        if problem.warp_specialize is True:
            require_roles(planned(NOTHING)[0], problem, without)
        elif searched is not None:
            decided = faster(searched, tried)
        if kept is not None:
            remember(Decision(without, decided), kept, problem, knobs)
        return planned(decided)[0], decided

    def _cut(
        self,
        fusion: Fusion,
        form: CutForm,
        without: tuple[Unfit, ...],
        chosen: Packing,
        empty: frozenset[int],
        decided: Decided,
    ) -> tuple[PlannedSegment, ...]:
        _, _, target = form
        if self._scheduled:
            return plan(fusion, scheduled=True, target=target)
        program = self.program(fusion, form)
        prepared = program.graph.fusion
        return plan_prepared(
            prepared, without, chosen, empty, decided, target=target, offers=program
        )

    def program(self, fusion: Fusion, form: CutForm) -> Offers:
        """What a call computes as it is planned in this form."""
        known = self._prepared.get(form)
        if known is None:
            _, dimensions, _ = form
            known = self._prepared.put(form, Offers.of(prepare(fusion, dimensions)))
        return known
