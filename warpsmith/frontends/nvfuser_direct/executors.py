"""What runs a fusion: by warpsmith's schedules or by the one that was laid."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from warpsmith.errors import WarpsmithError
from warpsmith.frontends.nvfuser_direct import binding, kernels, profiler
from warpsmith.frontends.nvfuser_direct.enums import SchedulerType
from warpsmith.frontends.nvfuser_direct.failures import (
    Refused,
    as_runtime_error,
    as_runtime_errors,
    unsupported,
)
from warpsmith.frontends.nvfuser_direct.fusion import Fusion
from warpsmith.frontends.nvfuser_direct.heuristics import CompileParams, LaunchParams
from warpsmith.frontends.nvfuser_direct.place import on_gpu
from warpsmith.ir.dtypes import DataType as Type
from warpsmith.ir.exprs import Matmul
from warpsmith.ops.scalars import symbols_of_call
from warpsmith.runtime import arrays
from warpsmith.schedule import pinned

_FUSED = frozenset({Type.Half, Type.BFloat16})
"""What nvFuser's matmul kernels multiply."""


class FusionExecutorCache:
    """The kernels of one fusion, made when a call needs them."""

    def __init__(self, fusion: Fusion, fusion_id: int = 0, auto_schedule: bool = True) -> None:
        self._fusion = fusion
        self._scheduled = not auto_schedule

    def fusion(self) -> Fusion:
        return self._fusion

    def execute(
        self,
        inputs: Sequence[Any],
        *,
        device: Any = None,
        _enable_options: Sequence[str] = (),
        _disable_options: Sequence[str] = (),
    ) -> list[Any]:
        """Results for one list of tensors and numbers."""
        where = _checked(device)
        if "fuse_matmul" in _enable_options and "matmul_expr_eval" in _disable_options:
            _check_products(self._fusion)
        if self._fusion.hidden.runs_outside:
            said = binding.mismatch(self._fusion.inputs(), inputs)
            if said:
                raise Refused(said, remedy="pass what was defined")
        definition, call = self._fusion.definition, self._fusion.call(inputs)
        given = list(map(_without_gradient, call.passed))
        if not definition.fusion.outputs:
            return self._fusion.returned([], call)  # PyTorch has computed them all
        by_streams = self._fusion.streams.is_used and not self._scheduled
        watching = None if by_streams else profiler.active()
        begun = 0.0 if watching is None else perf_counter()
        try:
            if by_streams:
                results = self._fusion.streams.run(given)
            elif self._scheduled:
                results = definition.manual_execute(given)
            else:
                results = definition.execute(
                    given,
                    device=where,
                    _enable_options=_enable_options,
                    _disable_options=_disable_options,
                )
        except WarpsmithError as error:
            if isinstance(error, RuntimeError):
                raise
            said = binding.mismatch(self._fusion.inputs(), inputs)
            raise as_runtime_error(error, said) from error
        if not any(hasattr(value, "shape") for value in given):
            results = [_as_torch(result, where) for result in results]
        if watching is not None:
            taken = perf_counter() - begun
            watching.see(definition.executable(), self._scheduled, given, results, taken)
        return self._fusion.returned(results, call)

    def is_compiled(self, inputs: Sequence[Any], device: int = 0) -> bool:
        """Whether kernels for such a call were made."""
        definition = self._fusion.definition
        runs_none = not definition.fusion.outputs
        return runs_none or kernels.is_planned(definition, _given(self._fusion, inputs))

    def get_cuda_kernel(
        self, inputs: Sequence[Any], intrinsic_code: bool = False, device: int = 0
    ) -> str:
        """CUDA C++ of the kernels of such a call; the prelude is part of it."""
        return kernels.cuda_of_call(self._fusion.definition, _given(self._fusion, inputs))

    def get_scheduled_ir(
        self, inputs: Sequence[Any], tensor_transforms: bool = False, device: int = 0
    ) -> str:
        """The kernels of such a call in their last form before CUDA."""
        return kernels.forms_of_call(self._fusion.definition, _given(self._fusion, inputs))

    def get_most_recent_scheduled_ir(self, tensor_transforms: bool = False) -> str:
        """The kernels of the last call in their last form before CUDA."""
        return kernels.forms_of_last_call(self._fusion.definition)

    def get_output_shardings(self) -> list[Any]:
        """What each device has of each output; nothing, since all run on one GPU."""
        raise unsupported("FusionExecutorCache.get_output_shardings", "a fusion runs on one GPU")


class KernelExecutor:
    """The kernel of a fusion, by the schedule that was laid."""

    def __init__(
        self, fusion_id: int = 0, concrete_id: int = 0, runtime_id: int = 0, group_id: int = 0
    ) -> None:
        self._runs: FusionExecutorCache | None = None

    def compile(
        self,
        fusion: Fusion,
        args: Sequence[Any] = (),
        launch_constraints: LaunchParams | None = None,
        compile_params: CompileParams | None = None,
        scheduler_type: SchedulerType = SchedulerType.none,
    ) -> None:
        """Take a fusion; its kernel is compiled by the first call, for its sizes.

        Where shared memory depends on sizes, all calls are to have those of `args`.
        """
        fusion.settle()
        if not fusion.automatic:
            with as_runtime_errors():
                kernels.adapt(fusion.ours)
            wanted = pinned.shared_sizes(fusion.ours) if args else set()
            if wanted and kernels.lacks_sizes(fusion.definition):
                passed = zip(fusion.ours.inputs, fusion.arranged(args), strict=False)
                sizes = symbols_of_call(passed)
                pinned.pin(fusion.ours, {size: sizes[size.name] for size in wanted})
        self._runs = FusionExecutorCache(fusion, auto_schedule=fusion.automatic)

    def run(
        self,
        args: Sequence[Any],
        launch_constraints: LaunchParams | None = None,
        compile_params: CompileParams | None = None,
    ) -> list[Any]:
        """Results for one list of tensors and numbers."""
        if self._runs is None:
            raise RuntimeError("KernelExecutor.run needs a kernel: call compile first")
        return self._runs.execute(args)

    def is_compiled(self) -> bool:
        return self._runs is not None

    def is_programmatic_dependent_launch_enabled(self) -> bool:
        """Whether the kernel overlaps with the one before; a kernel by itself does not."""
        return False


def _given(fusion: Fusion, inputs: Sequence[Any]) -> list[Any]:
    """Inputs as warpsmith takes them."""
    return list(map(_without_gradient, fusion.arranged(inputs)))


def _check_products(fusion: Fusion) -> None:
    """Refuse products that nvFuser's own matmul kernels do not take, where they are asked for."""
    for operation in fusion.ours.operations:
        if isinstance(operation, Matmul) and any(
            each.dtype not in _FUSED for each in operation.operands
        ):
            raise Refused(
                "Can not find a scheduler to schedule fusion segment: a product of "
                f"{', '.join(each.dtype.name for each in operation.operands)} is no fused matmul",
                remedy="leave the options `fuse_matmul` and `matmul_expr_eval` out",
            )


def _without_gradient(value: Any) -> Any:
    return value.detach() if getattr(value, "requires_grad", False) else value


def _checked(device: Any) -> Any:
    """The device that was asked for; None where calls run on the CPU."""
    if device is None or isinstance(device, int):
        return device if on_gpu() else None
    if not str(device).startswith("cuda"):
        raise AssertionError("If device argument is passed it must be a CUDA device")
    return str(device) if on_gpu() else None


def _as_torch(array: Any, where: Any) -> Any:
    """A result of a call without tensors as PyTorch's, on the device that was asked for; on the
    first GPU, where it was computed, without one.
    """
    import torch

    if isinstance(array, torch.Tensor):
        return array if where is None else array.to(where)
    if where is None:
        where = "cuda:0" if on_gpu() else "cpu"
    return arrays.from_numpy(array, torch.empty(0, device=where))
