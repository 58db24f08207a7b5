"""Runs a fusion on arrays: on the GPU where there is one, else on the simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from warpsmith import knobs as knob_module
from warpsmith.engine import autotune
from warpsmith.engine.bind import Binder, Binding
from warpsmith.engine.classes import Classes
from warpsmith.engine.contiguous import contiguous_dimensions
from warpsmith.engine.fitting import REFUSALS, Cuts
from warpsmith.engine.launches import CallPlan, plan_call, problem_of
from warpsmith.engine.places import call_target, is_on_device, ordinal_of, place_of
from warpsmith.engine.plan import added
from warpsmith.engine.planned import NoKernelError, PlannedSegment, warn_of
from warpsmith.engine.runners import OnDevice, Reference, ThroughDevice
from warpsmith.engine.signatures import alignments, signature, size_arguments
from warpsmith.errors import ArgumentError
from warpsmith.ir.fusion import Fusion
from warpsmith.knobs import Knobs
from warpsmith.planner.decided import NOTHING, Decided
from warpsmith.planner.empty import empty_tensors
from warpsmith.planner.segment import Unfit
from warpsmith.runtime import driver
from warpsmith.runtime.kept import PLANS
from warpsmith.runtime.launcher import Shortcut
from warpsmith.runtime.of_device import check_runs
from warpsmith.runtime.recent import Recent
from warpsmith.runtime.stream import is_capturing

if TYPE_CHECKING:
    from warpsmith.engine.simulated import Simulated
    from warpsmith.engine.verification import Verification

_Ready = Callable[[Sequence[object]], list[Any]]
"""A call signature that can be run: from inputs to results."""


class Executable:
    """A fusion with its compiled kernels and the launches of every signature met so far.

    Args:
        fusion: finished; not changed any more.
        scheduled: the user laid the schedule, so nothing is cut or scheduled automatically.

    Attributes:
        classes: of sizes that were planned so far, each with its kernel.
        binder: holds arguments against the definition.
        shortcut: the way of calls of lists past Python.
    """

    def __init__(self, fusion: Fusion, *, scheduled: bool = False) -> None:
        fusion.check_not_empty()
        self.fusion = fusion
        self._scheduled = scheduled
        self.binder = Binder(fusion, scheduled=scheduled)
        self._cuts = Cuts(scheduled=scheduled)
        self._sizes = size_arguments(fusion)
        self._ready: Recent[tuple[object, ...], _Ready] = Recent(PLANS)
        self._last: tuple[Binding, Knobs] | None = None
        self.shortcut = Shortcut()
        self.classes = Classes(fusion)

    def run(self, inputs: Sequence[object]) -> list[Any]:
        """Results of the fusion for one list of arrays and numbers, in the order of its outputs.

        Outputs that alias an input are written into it and left out of the list.
        """
        done = self.launch(inputs)
        if done is not NotImplemented:
            return done  # type: ignore[no-any-return]
        asked = knob_module.scoped_plan()
        key = (signature(inputs, self._sizes), asked)
        ready = self._ready.get(key)
        if ready is None:
            ready = self._ready.put(key, self._prepare(inputs))
            if asked is None and not self._sizes:
                self.shortcut.keep(tuple(inputs), ready, range(len(inputs)), 2)
        return ready(inputs)

    def launch(self, inputs: Sequence[object]) -> Any:
        """What `run` returns where the launcher in C has a recipe for it; else NotImplemented."""
        return self.shortcut.launch(inputs)

    def prepared(self, inputs: Sequence[object]) -> Callable[[Sequence[Any]], list[Any]]:
        """What `run` does for arrays of exactly this signature, without looking at it again.

        Where a size depends on a number among the arguments, that is `run` itself.
        """
        if self._sizes:
            return self.run
        key = (signature(inputs), knob_module.scoped_plan())
        return self._ready.get(key) or self._ready.put(key, self._prepare(inputs))

    def takes(self, inputs: Sequence[object]) -> bool:
        """Whether the arguments fit the definition, as a call would find."""
        try:
            self.binder(inputs)
        except ArgumentError:
            return False
        return True

    def plan_for(self, inputs: Sequence[object], knobs: Knobs | None = None) -> CallPlan:
        """Kernels and launches for these arrays, compiled; nothing is run."""
        binding = self.binder(inputs)
        return self._plan(binding, knobs or knob_module.current())

    @property
    def last_plan(self) -> CallPlan | None:
        """Kernels and launches of the last signature that was planned.

        They are planned anew, from what is kept: nothing here keeps kernels beyond their limit.
        """
        return None if self._last is None else self._planned(*self._last)

    @property
    def is_planned(self) -> bool:
        """Whether any signature was planned."""
        return self._last is not None

    def explain(self, *, sync: bool = False) -> str:
        """What was chosen for the last signature, and why."""
        call = self.last_plan
        if call is None:
            return "nothing was planned yet: call the fusion, or plan_for, first"
        from warpsmith.engine.explain import explain_call

        return explain_call(call, self.classes, sync=sync)

    def _prepare(self, inputs: Sequence[object]) -> _Ready:
        binding = self.binder(inputs)
        knobs = knob_module.current()
        place = place_of(binding, knobs)
        if place == "reference":
            return Reference(binding.fusion)
        call = self._plan(binding, knobs)
        if place == "sim":
            return _simulated(binding.fusion, call)
        if knobs.target != "auto":
            check_runs(call.problem.target, driver.device_properties(place))
        if not is_on_device(binding):
            return ThroughDevice(binding.fusion, call, place)
        if knobs.autotune:
            call = self._tuned(binding, call, knobs, inputs, place)
            return OnDevice(binding.fusion, call, place)
        return OnDevice(binding.fusion, call, place, self.binder.asked(binding.form))

    def _tuned(
        self,
        binding: Binding,
        call: CallPlan,
        knobs: Knobs,
        inputs: Sequence[object],
        ordinal: int,
    ) -> CallPlan:
        """The call with those candidates that are the fastest on this device, timed if need be;
        what the call writes into is copied for that. A stream that is being captured times nothing.
        """
        fusion, problem = binding.fusion, call.problem
        aliases = [o.alias_of for o in fusion.outputs if o.alias_of is not None]
        written = set(map(fusion.inputs.index, aliases))

        def ready(segments: Sequence[PlannedSegment]) -> Callable[[], object] | None:
            own: list[Any] = list(inputs)
            for position in written:
                own[position] = own[position].clone()
            known = problem.values, problem.alignment, problem.target
            try:
                run = OnDevice(fusion, plan_call(fusion, segments, *known, knobs), ordinal)
            except REFUSALS:
                return None
            return lambda: run(own)

        if is_capturing(ordinal):
            return call
        timer = partial(autotune.by_events, ordinal)
        timed = autotune.measure(call.segments, problem, knobs, ready, timer)
        return self._plan(binding, knobs) if timed else call

    def verify(self, inputs: Sequence[object], *, schedules: int) -> Verification:
        """What the simulator says of each kernel that these arrays launch, and of the results."""
        binding = self.binder(inputs)
        call = self._plan(binding, knob_module.current())
        return _simulated(binding.fusion, call).verify(inputs, schedules=schedules)

    def _plan(self, binding: Binding, knobs: Knobs) -> CallPlan:
        """The plan of a call, which is the last one from now on."""
        call = self._planned(binding, knobs)
        self._last = binding, knobs
        self.classes.meet(call)
        return call

    def _planned(self, binding: Binding, knobs: Knobs) -> CallPlan:
        named = binding.values.items()
        values = {k: v for k, v in named if isinstance(v, int) and not isinstance(v, bool)}
        fusion = binding.fusion
        alignment = alignments(binding)
        target = call_target(knobs, ordinal_of(binding))
        without: tuple[Unfit, ...] = ()
        empty: frozenset[int] = frozenset()
        failed: frozenset[Decided] = frozenset()
        scheduled = self._scheduled
        dimensions = frozenset() if scheduled else contiguous_dimensions(fusion, values)
        form = binding.form, dimensions, target
        while True:
            problem = problem_of(values, alignment, target, knobs)
            tried = without, empty, failed
            segments, decided = self._cuts.fitting(fusion, problem, form, *tried, knobs)
            try:
                call = plan_call(fusion, segments, values, alignment, target, knobs)
            except REFUSALS as failure:
                if decided != NOTHING and knobs.override_dir is None:
                    failed |= {decided}
                    continue
                if not isinstance(failure, NoKernelError):
                    raise
                without, failed = added(without, [failure.unfit]), frozenset()
                warn_of(failure.unfit)
                continue
            if not call.unwritten:
                break
            found = frozenset[int]()
            if not scheduled:
                found = empty_tensors(self._cuts.program(fusion, form).graph.fusion, values)
            if found == empty:
                raise _unwritten(call)
            empty = found
        return call


def _simulated(fusion: Fusion, call: CallPlan) -> Simulated:
    from warpsmith.engine.simulated import Simulated

    return Simulated(fusion, call)


def _unwritten(call: CallPlan) -> ArgumentError:
    return ArgumentError(
        f"{call.unwritten[0]} has elements, and the grid of its kernel, which an empty result "
        "shares, has no blocks for these sizes",
        code="WS0327",
        remedy="give results of other sizes a kernel of their own",
    )
