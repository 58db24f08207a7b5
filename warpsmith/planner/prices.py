"""What the kernels of a plan take in a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Protocol

from warpsmith.planner.segment import Segment
from warpsmith.schedulers.candidate import Candidate
from warpsmith.schedulers.problem import Problem
from warpsmith.values import dataclass


class Planned(Protocol):
    """A segment with the candidate that has it; `local` tells a call in the candidate's names."""

    @property
    def segment(self) -> Segment: ...

    @property
    def candidate(self) -> Candidate | None: ...

    def local(self, problem: Problem) -> Problem: ...


Plan = tuple[Sequence[Planned], Problem]
"""Segments, and the call with all sizes that follow from them."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Microseconds of kernels in a call; those that are alike are priced once."""

    _known: dict[object, float] = field(default_factory=dict)

    def us(self, planned: Planned, problem: Problem) -> float:
        """Of one kernel; 0 of what somebody scheduled by hand, and of views, which have none."""
        if planned.candidate is None or planned.segment.views:
            return 0.0
        local = planned.local(problem)
        sizes = frozenset(local.values.items()), frozenset(local.alignment.items())
        key = (planned.segment.shape.key, planned.candidate.scheduler, sizes)
        if key not in self._known:
            self._known[key] = planned.candidate.us(local)
        return self._known[key]

    def both(self, first: Plan, second: Plan) -> tuple[float, float]:
        """Of the kernels of each of two plans that the other has not."""

        def known(plan: Plan) -> dict[object, Planned]:
            parts = ((planned, planned.segment) for planned in plan[0])
            return {(s.inputs, s.outputs, s.shape.key): planned for planned, s in parts}

        ours, theirs = known(first), known(second)
        return (
            sum(self.us(ours[key], first[1]) for key in ours.keys() - theirs.keys()),
            sum(self.us(theirs[key], second[1]) for key in theirs.keys() - ours.keys()),
        )
