"""nvFuser's `FusionDefinition`."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from types import ModuleType, TracebackType
from typing import Any

from warpsmith.frontends.nvfuser_direct import ops, schedule, text, validated
from warpsmith.frontends.nvfuser_direct.dtypes import torch_dtype_to_nvfuser_dtype
from warpsmith.frontends.nvfuser_direct.enums import DataType
from warpsmith.frontends.nvfuser_direct.executors import FusionExecutorCache, KernelExecutor
from warpsmith.frontends.nvfuser_direct.fusion import Fusion
from warpsmith.frontends.nvfuser_direct.guard import FusionGuard
from warpsmith.frontends.nvfuser_direct.heuristics import HeuristicParams
from warpsmith.frontends.nvfuser_direct.place import on_gpu
from warpsmith.frontends.nvfuser_direct.statements import Val
from warpsmith.frontends.nvfuser_direct.values import TensorView


class FusionDefinition:
    """A tensor program that is defined in a `with`, and then called.

    Example:
        with FusionDefinition() as fd:
            x = fd.define_tensor(shape=[-1, -1], contiguity=True)
            fd.add_output(fd.ops.sum(fd.ops.relu(x), dims=[-1]))
        (row_sums,) = fd.execute([tensor])

    Attributes:
        ops, sched: the modules `ops` and `schedule`.
        fec, ke: what `execute` or `manual_execute` made, once one of them was called.
    """

    fec: FusionExecutorCache
    ke: KernelExecutor

    def __init__(self) -> None:
        self.ops: ModuleType = ops
        self.sched: ModuleType = schedule
        self._fusion: Fusion | None = None
        self._guard: FusionGuard | None = None
        self._saved: list[Any] | None = None

    @property
    def fusion(self) -> Fusion:
        """The program; None outside of a `with` that defines one."""
        return self._fusion  # type: ignore[return-value]  # callers have defined one

    def __enter__(self) -> FusionDefinition:
        self._fusion = Fusion()
        self._guard = FusionGuard(self._fusion)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._guard is not None:
            self._guard.leave()
        if kind is not None:
            print(f"Exception occurred: {kind.__name__}: {error}")
            traceback.print_tb(at)

    def __repr__(self) -> str:
        return self.fusion.text()

    def define_tensor(self, *args: Any, **kwargs: Any) -> TensorView:
        """An input tensor; see `Fusion.define_tensor`."""
        return self.fusion.define_tensor(*args, **kwargs)

    def define_scalar(self, *args: Any, **kwargs: Any) -> Val:
        """A scalar input, or a constant; see `Fusion.define_scalar`."""
        return self.fusion.define_scalar(*args, **kwargs)

    def define_vector(self, size: int | Sequence[Any], dtype: DataType = DataType.Int) -> list[Any]:
        """So many scalar inputs, which a call may pass as a list; or the values that are given."""
        if isinstance(size, int):
            return [self.define_scalar(None, dtype) for _ in range(size)]
        return list(size)

    def add_output(
        self,
        output: TensorView,
        alias_input: TensorView | None = None,
        *,
        stride_order: Sequence[int] = (),
    ) -> None:
        """Make a tensor a result; see `Fusion.add_output`."""
        if stride_order:
            output = ops.stride_order(output, stride_order)
        self.fusion.add_output(output, alias_input)

    def from_pytorch(self, tensor: Any, static_sizes: bool = False) -> TensorView:
        """An input like an example.

        Raises:
            ValueError: for a tensor of the CPU with dimensions, where calls run on a GPU.
        """
        on_host = tensor.device.type == "cpu" and on_gpu()
        if on_host and len(tensor.shape):
            raise ValueError(
                f"Found unsupported device {tensor.device}, only scalar CPU or CUDA tensors are "
                "supported"
            )
        return self.define_tensor(
            sizes=tuple(tensor.shape),
            strides=tuple(tensor.stride()),
            dtype=torch_dtype_to_nvfuser_dtype(tensor.dtype),
            static_sizes=static_sizes,
            is_cpu=on_host,
        )

    def validate_definition(self) -> tuple[bool, str | None]:
        """Whether there is something to execute, and if not, what is missing."""
        if self._fusion is None:
            wanted = "Use `with FusionDefinition() as fd: ...` to define a fusion."
            return False, f"Fusion does not exist! {wanted}"
        if not self._fusion.outputs() or not self._fusion.vals():
            return False, "Fusion is empty!"
        return True, None

    def execute(
        self,
        inputs: Sequence[Any],
        *,
        device: Any = None,
        save_repro_inputs: bool = False,
        _enable_options: Sequence[str] = (),
        _disable_options: Sequence[str] = (),
    ) -> list[Any]:
        """Results for one list of tensors and numbers; warpsmith schedules."""
        if save_repro_inputs:
            self._saved = [text.input_text(value) for value in inputs]
        if hasattr(self, "ke"):
            raise AssertionError(
                "KernelExecutor already exists! Use manual_execute() to execute the fusion."
            )
        if not hasattr(self, "fec"):
            valid, why = self.validate_definition()
            if not valid:
                raise NotImplementedError(why)
            self.fec = FusionExecutorCache(self.fusion)
        return self.fec.execute(
            inputs,
            device=device,
            _enable_options=_enable_options,
            _disable_options=_disable_options,
        )

    def manual_execute(
        self, inputs: Sequence[Any], heuristic_params: HeuristicParams | None = None
    ) -> list[Any]:
        """Results for one list of tensors and numbers, by the schedule that was laid."""
        if hasattr(self, "fec"):
            raise AssertionError(
                "FusionExecutorCache already exists! Use execute() to execute the fusion."
            )
        if not hasattr(self, "ke"):
            self.ke = KernelExecutor()
        if not self.ke.is_compiled():
            self.ke.compile(self.fusion, inputs)
        return self.ke.run(inputs)

    def last_repro_script(self) -> str:
        """A script that repeats the last call with `save_repro_inputs=True`."""
        if self._saved is None:
            raise AssertionError(
                "fd.last_repro_script() cannot provide a repro because "
                "fd.execute(inputs, save_repro_inputs=True) was not executed!"
            )
        return self._script(self._saved)

    def repro_script_for(self, inputs: Sequence[Any] | None = None) -> str:
        """A script that defines the fusion and executes it on inputs like these."""
        return self._script(None if inputs is None else [text.input_text(each) for each in inputs])

    def _script(self, inputs: Sequence[str] | None) -> str:
        return text.script(repr(self), inputs)

    def validate(
        self,
        inputs: Sequence[Any],
        reference_outputs: Sequence[Any] | None = None,
        device: Any = None,
        **kwargs: Any,
    ) -> list[Any]:
        """`execute`, and compare with the reference, or with the program's meaning in float64."""
        before = [_copied(value) for value in inputs]
        outputs = self.execute(inputs, device=device, **kwargs)
        validated.check(self.fusion, before, outputs, reference_outputs)
        return outputs

    def manual_validate(
        self, inputs: Sequence[Any], reference_outputs: Sequence[Any] | None = None
    ) -> list[Any]:
        """`manual_execute`, and compare as `validate` does."""
        before = [_copied(value) for value in inputs]
        outputs = self.manual_execute(inputs)
        validated.check(self.fusion, before, outputs, reference_outputs)
        return outputs


def _copied(value: Any) -> Any:
    """An input as it is now."""
    return value.detach().clone() if hasattr(value, "detach") else value
