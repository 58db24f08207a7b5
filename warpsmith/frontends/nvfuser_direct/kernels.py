"""The kernels behind a fusion, looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpsmith.codegen.cuda import cuda_text
from warpsmith.engine.executable import Executable
from warpsmith.engine.launches import CallPlan
from warpsmith.engine.planned import PlannedSegment
from warpsmith.errors import ScheduleError, WarpsmithError
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.frontends.nvfuser_direct.enums import SchedulerType
from warpsmith.ir.domains import GRID_TYPES, IterDomain, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Reduction
from warpsmith.ir.tensor import TensorView
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.printer import kernel_text
from warpsmith.lower.pipeline import lower
from warpsmith.ops.liveness import remove_dead
from warpsmith.schedule import caches, inline, propagate, transforms
from warpsmith.targets.known import KNOWN

_SCHEDULERS = {
    "pointwise": SchedulerType.pointwise,
    "reduction": SchedulerType.reduction,
    "inner_persistent": SchedulerType.inner_persistent,
    "outer_persistent": SchedulerType.outer_persistent,
    "outer_grid": SchedulerType.outer_persistent,
    "inner_grid": SchedulerType.inner_persistent,
    "inner_outer": SchedulerType.inner_outer_persistent,
    "matmul": SchedulerType.matmul,
    "matmul_by_threads": SchedulerType.matmul,
}
"""nvFuser's name of each scheduler that it has, too."""


Binding = tuple[TensorView, IterDomain, ParallelType]
"""A loop of a tensor, and what is to run it."""


def settle(waiting: Sequence[Binding]) -> None:
    """Make the loops that TMA copies the innermost of their tensors, then bind loops."""
    for tensor in dict.fromkeys(tensor for tensor, _, _ in waiting):
        coming = {domain: kind for each, domain, kind in waiting if each is tensor}
        inner = [coming.get(domain, domain.parallel) is ParallelType.tma for domain in tensor.loop]
        places = sorted(range(len(inner)), key=lambda d: inner[d])
        transforms.reorder(tensor, {old: new for new, old in enumerate(places)})
        for domain, kind in coming.items():
            transforms.bind(tensor, domain, kind)


def adapt(fusion: Any) -> None:
    """Make of a schedule in nvFuser's manner one in warpsmith's."""
    _store_apart(fusion)
    _reduce_apart(fusion)


def _store_apart(fusion: Any) -> None:
    """Reduce in registers what nvFuser reduces as it stores it: the results that are reductions.

    A result then copies what was reduced, in the same loops.
    """
    for output in fusion.outputs:
        made = output.value.definition
        if isinstance(made, Reduction) and len(made.outputs) == 1:
            _spread(output.value)
            reduced = caches.cache_before(output.value)
            propagate.parallelize_like(reduced, -1, [output.value])
            inline.inline_most(fusion, [reduced])


def _spread(tensor: TensorView) -> None:
    """Have blocks run the loops around a reduction over the grid: its blocks can meet once only."""
    if any(axis.is_reduction and axis.parallel.is_grid for axis in tensor.loop):
        used = {axis.parallel for axis in tensor.loop}
        free = iter(kind for kind in GRID_TYPES if kind not in used)
        for axis in tensor.loop:
            if axis.parallel is ParallelType.serial and not axis.is_reduction:
                axis.parallel = next(free, ParallelType.serial)


def _reduce_apart(fusion: Any) -> None:
    """Reduce in loops first, and then over threads, what nvFuser reduces over threads in a loop."""
    for tensor in fusion.computed:
        loops = [axis.parallel for axis in tensor.loop if axis.is_reduction]
        if any(kind.is_thread for kind in loops) and ParallelType.serial in loops:
            caches.rfactor(
                tensor,
                [
                    place
                    for place, axis in enumerate(tensor.loop)
                    if axis.is_reduction and not axis.parallel.is_thread
                ],
            )


def cuda_of_schedule(definition: FusionDefinition) -> str:
    """CUDA of a fusion's kernel by the schedule that was laid, for 32-bit indices."""
    draft = definition.fusion.draft()
    remove_dead(draft)
    adapt(draft)
    return cuda_text(_lowered(draft), KNOWN[0])


def lacks_sizes(definition: FusionDefinition) -> bool:
    """Whether shared memory depends on sizes, by a schedule that was adapted."""
    draft = definition.fusion.draft()
    remove_dead(draft)
    try:
        _lowered(draft)
    except ScheduleError as error:
        return error.code == "WS0262"
    return False


def _lowered(draft: Any) -> Kernel:
    return lower(draft, "kernel", DataType.Int32, target=KNOWN[0])


def cuda_of_call(definition: FusionDefinition, inputs: Sequence[Any]) -> str:
    return "\n".join(launch.compiled.cuda for launch in _planned(definition, inputs).launches)


def forms_of_call(definition: FusionDefinition, inputs: Sequence[Any]) -> str:
    return _forms(_planned(definition, inputs))


def forms_of_last_call(definition: FusionDefinition) -> str:
    plan = _executable(definition).last_plan
    return "" if plan is None else _forms(plan)


def is_planned(definition: FusionDefinition, inputs: Sequence[Any]) -> bool:
    """Whether a call of the same types and ranks was made."""
    executable = _executable(definition)
    return executable.is_planned and executable.takes(inputs)


def schedulers_of(
    definition: FusionDefinition, inputs: Sequence[Any]
) -> tuple[list[SchedulerType], str]:
    """Which scheduler takes all of a call, and if none does, why."""
    try:
        segments = _planned(definition, inputs, fresh=True).segments
    except WarpsmithError as error:
        return [], str(error)
    if len(segments) != 1:
        return [], f"the program is cut into {len(segments)} kernels"
    (candidate,) = (each.candidate for each in segments)
    if candidate is None or candidate.scheduler not in _SCHEDULERS:
        return [], "nvFuser has no such scheduler"
    return [_SCHEDULERS[candidate.scheduler]], ""


def scheduler_of(segment: PlannedSegment) -> str:
    """nvFuser's name of the scheduler of a call's kernel, or warpsmith's; `user` where none is."""
    if segment.candidate is None:
        return "user"
    name = segment.candidate.scheduler
    return _SCHEDULERS[name].name if name in _SCHEDULERS else name


def refusals_of(definition: FusionDefinition, inputs: Sequence[Any]) -> dict[str, str]:
    """What each scheduler says against a call, by warpsmith's names of schedulers."""
    try:
        segments = _planned(definition, inputs, fresh=True).segments
    except WarpsmithError:
        return {}
    said: dict[str, str] = {}
    for segment in segments:
        said.update(segment.candidate.refusals if segment.candidate is not None else ())
    return said


def parameters_of(definition: FusionDefinition, inputs: Sequence[Any]) -> object:
    """What the scheduler of a call's kernel chose."""
    return [launch.params for launch in _planned(definition, inputs, fresh=True).launches]


def _forms(plan: CallPlan) -> str:
    return "\n".join(kernel_text(launch.compiled.kernel) for launch in plan.launches)


def _planned(
    definition: FusionDefinition, inputs: Sequence[Any], *, fresh: bool = False
) -> CallPlan:
    return _executable(definition, fresh=fresh).plan_for(inputs)


def _executable(definition: FusionDefinition, *, fresh: bool = False) -> Executable:
    """What calls of the fusion use; or one of a copy of it, which leaves it as it is."""
    if not fresh:
        found = definition.executable()
        assert isinstance(found, Executable)
        return found
    draft = definition.fusion.draft()
    remove_dead(draft)
    return Executable(draft)
