"""`nvfuser_direct.schedule`: primitives that concern many tensors, and schedulers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from warpsmith.frontends.nvfuser_direct import backward, kernels
from warpsmith.frontends.nvfuser_direct.enums import ParallelType, SchedulerType, ours
from warpsmith.frontends.nvfuser_direct.failures import FusionError, as_runtime_errors, unsupported
from warpsmith.frontends.nvfuser_direct.fusion import Fusion
from warpsmith.frontends.nvfuser_direct.guard import current
from warpsmith.frontends.nvfuser_direct.heuristics import HeuristicParams, params_of
from warpsmith.frontends.nvfuser_direct.values import TensorView


def bounded_transform_backward(
    from_: TensorView, pos: int, to: Sequence[TensorView], propagate_parallel_type: bool = False
) -> None:
    """Give tensors that are computed between some others and this one loops like its own.

    Loops that both have stay bound as they are.

    Raises:
        Unsupported: WS0190 for other than all loops.
    """
    reference = from_.value
    if pos not in (-1, len(reference.loop)):
        raise unsupported(
            "schedule.bounded_transform_backward", f"it takes all loops, not {pos}", "pass -1"
        )
    with as_runtime_errors():
        _schedule(from_)
        backward.transform(reference, _values(to), with_types=propagate_parallel_type)


def transform_like(reference_tv: TensorView, selected_tensors: Iterable[TensorView] = ()) -> None:
    """Give other tensors loops like the reference's."""
    with as_runtime_errors():
        _schedule(reference_tv).transform_like(reference_tv.value, _values(selected_tensors))


def parallelize_like(
    reference_tv: TensorView,
    pos: int = -1,
    selected_tensors: Iterable[TensorView] = (),
    selected_parallel_types: Iterable[ParallelType] = (),
    propagate_padding: bool = True,
) -> None:
    """Bind other tensors' loops as the reference's equal loops are bound."""
    kinds = [ours(kind) for kind in selected_parallel_types]
    with as_runtime_errors():
        _schedule(reference_tv).parallelize_like(
            reference_tv.value, pos, _values(selected_tensors), kinds
        )


def inline_most(selected_tensors: Iterable[TensorView] = ()) -> None:
    """Compute every tensor as deep in its consumers' loops as is legal."""
    chosen = list(selected_tensors)
    fusion = chosen[0].fusion if chosen else current()
    with as_runtime_errors():
        fusion.definition.sched.inline_most(_values(chosen))


def inline_at(
    reference_tv: TensorView,
    pos: int = -1,
    best_effort: bool = False,
    selected_tensors: Iterable[TensorView] = (),
) -> None:
    """Compute tensors in the first `pos` loops of the reference."""
    with as_runtime_errors():
        _schedule(reference_tv).inline_at(
            reference_tv.value, pos, best_effort, _values(selected_tensors)
        )


def warp_specialize(
    tv: TensorView,
    number_of_stages: int,
    prefetch_distance: int,
    parallel_type: ParallelType,
    num_registers: tuple[int, int] | None = None,
) -> None:
    """Load a tensor through stages by warps of their own."""
    with as_runtime_errors():
        _schedule(tv).warp_specialize(
            tv.value, number_of_stages, prefetch_distance, ours(parallel_type), num_registers
        )


_WORDS = {("pointwise", "it reduces"): "cannot find reference tensor"}
"""What nvFuser's schedulers say, which programs compare."""


def can_schedule(
    fusion: Fusion, scheduler_type: SchedulerType, inputs: Sequence[Any]
) -> tuple[bool, str]:
    """Whether a scheduler takes all of a call, and if not, why."""
    found, why = kernels.schedulers_of(fusion.definition, inputs)
    if scheduler_type in found:
        return True, ""
    name = scheduler_type.name
    why = kernels.refusals_of(fusion.definition, inputs).get(
        name, why or f"{found[0].name} takes it"
    )
    why = _WORDS.get((name, why), why)
    return False, f"Scheduler _{name}_ ***rejected*** because : {why}"


def find_compatible_schedulers(fusion: Fusion, inputs: Sequence[Any]) -> list[SchedulerType]:
    """The scheduler that takes all of a call; none where the call is cut."""
    return kernels.schedulers_of(fusion.definition, inputs)[0]


def compute_heuristics(
    fusion: Fusion, scheduler_type: SchedulerType, inputs: Sequence[Any]
) -> HeuristicParams:
    """What a scheduler chooses for a call.

    Raises:
        FusionError: WS0193 where it does not take the call.
    """
    can, why = can_schedule(fusion, scheduler_type, inputs)
    if not can:
        raise FusionError(
            f"Could not schedule fusion with the SchedulerType: {scheduler_type.name}: {why}",
            code="WS0193",
            remedy="ask find_compatible_schedulers, or execute without a schedule",
        )
    return params_of(scheduler_type, kernels.parameters_of(fusion.definition, inputs))


def schedule(
    fusion: Fusion, scheduler_type: SchedulerType, inputs: Sequence[Any] | HeuristicParams
) -> HeuristicParams:
    """Leave the schedule of `manual_execute` to warpsmith, whose scheduler this one must be.

    Parameters that a caller changed are not looked at: each call gets those for its sizes.
    """
    if isinstance(inputs, HeuristicParams):
        chosen = inputs
    else:
        chosen = compute_heuristics(fusion, scheduler_type, inputs)
    fusion.automatic = True
    return chosen


def _schedule(tensor: TensorView) -> Any:
    tensor.fusion.settle()
    return tensor.fusion.definition.sched


def _values(tensors: Iterable[TensorView]) -> list[Any]:
    return [tensor.value for tensor in tensors]
