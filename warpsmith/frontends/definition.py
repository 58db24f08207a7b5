"""`FusionDefinition`: nvFuser's names for defining, scheduling and running a fusion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsmith.callers import caller
from warpsmith.errors import DefinitionError
from warpsmith.frontends import printer, validation
from warpsmith.frontends.argument_keys import adopted, check_device, is_array
from warpsmith.frontends.inputs import (
    SYMBOLIC,
    define_input,
    define_scalar_input,
    flags_of,
    is_strides,
)
from warpsmith.frontends.memory_format import memory_format_of
from warpsmith.frontends.namespaces import Operations, Schedule
from warpsmith.frontends.outputs import add_output
from warpsmith.frontends.overlaps import refuse_overlaps
from warpsmith.frontends.tensor import Tensor
from warpsmith.ir import arithmetic
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.places import parts_of
from warpsmith.ir.scalar import Expr, literal
from warpsmith.ir.tensor import TensorView
from warpsmith.knobs import Specialize, scope
from warpsmith.ops.liveness import remove_dead
from warpsmith.runtime import arrays
from warpsmith.schedule.laid import is_scheduled

if TYPE_CHECKING:
    from warpsmith.engine.verification import Verification

WS_NORMALIZATION = "ws_normalization"
"""nvFuser's option for norms whose kernels have warps of their own that load."""


class FusionDefinition:
    """A tensor program.

    Example:
        with FusionDefinition() as fd:
            x = fd.define_tensor([-1, -1], contiguity=True)
            fd.add_output(fd.ops.sum(fd.ops.relu(x), dims=[-1]))
        (row_sums,) = fd.execute([array])

    Attributes:
        fusion: the program.
        ops: the operations of `warpsmith.ops`.
        sched: schedule primitives, for `manual_execute`.
    """

    def __init__(self) -> None:
        self.fusion = Fusion(tensor_type=Tensor)
        self.ops = Operations(self.fusion)
        self.sched = Schedule(self.fusion)
        self._executable: Any = None
        self._explained: Any = None
        self._scheduled = self._in_place = False
        self._repro_inputs: Sequence[str] | None = None

    def __enter__(self) -> FusionDefinition:
        return self

    def __exit__(self, *exception: object) -> None:
        """Nothing is to be done: the definition is read when it is first executed."""

    def __repr__(self) -> str:
        return printer.python_text(self.fusion)

    def define_tensor(
        self,
        shape: Sequence[int] | None = None,
        contiguity: bool | Sequence[bool | None] | Sequence[int] | None = None,
        dtype: DataType = DataType.Float,
        is_cpu: bool = False,
        stride_order: Sequence[int] | None = None,
        *,
        sizes: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        static_sizes: bool = False,
    ) -> Tensor:
        """A new input tensor, by shape and contiguity, or by sizes and strides of an example.

        Args:
            shape: -1 for a size that each call may choose, 1 for a broadcast dimension, else the
                size.
            contiguity: one flag for all dimensions, or one a dimension from the slowest in memory
                to the fastest, None for those of extent 1. False if absent: each call's strides
                are looked at, and contiguous arrays get the kernels that True would give.
            stride_order: rank of each dimension in memory, 0 the fastest; row-major if absent.
            sizes, strides: an example; extents other than 1 may differ in calls unless
                `static_sizes`.
        """
        if is_cpu:
            raise DefinitionError(
                "define_tensor got is_cpu=True",
                code="WS0153",
                remedy="use define_scalar, and pass the number that the tensor holds",
            )
        if sizes is None and is_strides(contiguity):
            sizes, strides, shape = shape, contiguity, None  # type: ignore[assignment]  # overload
        if sizes is not None and strides is not None and shape is None:
            return self._define_like(sizes, strides, dtype, static_sizes)
        if shape is None or sizes is not None or strides is not None:
            raise DefinitionError(
                "define_tensor got neither a shape nor both sizes and strides",
                code="WS0154",
                remedy="give shape and contiguity, or sizes and strides",
            )
        order = list(stride_order) if stride_order else None
        flags = flags_of(contiguity, shape, order)
        return _own(define_input(self.fusion, shape, flags, dtype, order))

    def _define_like(
        self, sizes: Sequence[int], strides: Sequence[int], dtype: DataType, static_sizes: bool
    ) -> Tensor:
        if len(sizes) != len(strides):
            raise DefinitionError(
                f"define_tensor got {len(sizes)} sizes and {len(strides)} strides",
                code="WS0154",
                remedy="give one stride for each size",
            )
        layout = memory_format_of(sizes, strides)
        shape = [size if static_sizes or size == 1 else SYMBOLIC for size in sizes]
        tensor = define_input(self.fusion, shape, layout.contiguity, dtype, layout.stride_order)
        return _own(tensor)

    def define_scalar(self, *args: Any, dtype: DataType | None = None, value: Any = None) -> Expr:
        """A scalar input, `define_scalar(dtype=Double)`, or a constant, `define_scalar(value)`."""
        if args and isinstance(args[0], DataType):
            return define_scalar_input(self.fusion, args[0])
        given = args[0] if args else value
        kind = args[1] if len(args) > 1 else dtype
        if given is None:
            return define_scalar_input(self.fusion, kind or DataType.Double)
        if not isinstance(given, bool | int | float):
            raise DefinitionError(
                f"define_scalar got a value of type {type(given).__name__}",
                code="WS0112",
                remedy="use a bool, an int or a float",
            )
        constant = literal(given)
        return constant if kind is None else arithmetic.convert(constant, kind)

    def define_vector(self, size: int) -> tuple[Expr, ...]:
        """`size` scalar inputs of type Int, for shapes."""
        return tuple(define_scalar_input(self.fusion, DataType.Int) for _ in range(size))

    def from_pytorch(self, tensor: object, static_sizes: bool = False) -> Tensor:
        """An input tensor like an example: a PyTorch tensor or a NumPy array."""
        info = arrays.describe(tensor)
        return self._define_like(info.shape, info.strides, DataType(info.dtype), static_sizes)

    def add_output(
        self,
        value: object,
        alias_input: object = None,
        at: tuple[int, object] | None = None,
    ) -> None:
        """Make a tensor a result; with `alias_input` it is written into that input instead; with
        `at`, a dimension and an input of one integer, into that element of the dimension alone."""
        add_output(self.fusion, value, alias_input, at)

    def validate_definition(self) -> tuple[bool, str]:
        """Whether the fusion can be executed, and if not, why."""
        if not self.fusion.outputs:
            return False, "the fusion has no output"
        return True, ""

    def execute(
        self,
        inputs: Sequence[object],
        *,
        device: object = None,
        save_repro_inputs: bool = False,
        warp_specialize: Specialize | None = None,
        autotune: bool | None = None,
        _enable_options: Sequence[str] = (),
        _disable_options: Sequence[str] = (),
    ) -> list[Any]:
        """Results for one list of arrays and numbers; warpsmith schedules.

        Args:
            device: where the tensors must be; where they are, if absent.
            save_repro_inputs: remember the shapes for `last_repro_script`.
            warp_specialize, autotune: as for `fuse`.
            _enable_options, _disable_options: nvFuser's. `ws_normalization` stands for
                `warp_specialize=True`, or False; the others change nothing here.

        Raises:
            SchedulerRefusal: WS0401 where roles are asked for and cannot be had.
        """
        for options, value in ((_enable_options, True), (_disable_options, False)):
            if warp_specialize is None and WS_NORMALIZATION in options:
                warp_specialize = value
        asked = {"warp_specialize": warp_specialize, "autotune": autotune}
        changes = {name: value for name, value in asked.items() if value is not None}
        if not changes:
            return self._run(inputs, device, save_repro_inputs, scheduled=False)
        with scope(**changes):
            return self._run(inputs, device, save_repro_inputs, scheduled=False)

    def manual_execute(
        self, inputs: Sequence[object], heuristic_params: object = None
    ) -> list[Any]:
        """Results for one list of arrays and numbers, by the schedule that the user laid."""
        if heuristic_params is not None:
            raise DefinitionError(
                f"manual_execute got heuristic_params of type {type(heuristic_params).__name__}",
                code="WS0155",
                remedy="set the schedule with the tensors' methods and fd.sched",
            )
        return self._run(inputs, None, False, scheduled=True)

    def verify(
        self, inputs: Sequence[object], *, schedules: int = 8, scheduled: bool | None = None
    ) -> Verification:
        """What the simulator finds in the kernels that these arrays launch; nothing is changed.

        Args:
            schedules: orders of warps and copies that each kernel is run under.
            scheduled: by the schedule that the user laid, as `manual_execute`; if absent, as the
                last call was, and before any call if there is such a schedule.
        """
        given = [adopted(value) for value in inputs]
        self._explained = executable = self.executable(scheduled)
        verification: Verification = executable.verify(given, schedules=schedules)
        return verification

    def explain(self, *, sync: bool = False) -> str:
        """What was chosen for the last call, or `verify`, and why.

        Args:
            sync: list what orders accesses of memory, too, with the lines of CUDA.
        """
        text: str = (self._explained or self.executable()).explain(sync=sync)
        return text

    def explain_html(self, inputs: Sequence[object], title: str = "") -> str:
        """The same of a call with these inputs, as a page; kernels run on the simulator for it."""
        from warpsmith.page.door import page_of

        executable = self._explained or self.executable()
        given = [adopted(value) for value in inputs]
        return page_of(executable.plan_for(given), executable, given, title)

    def _run(
        self, inputs: Sequence[object], device: object, save: bool, *, scheduled: bool
    ) -> list[Any]:
        self._explained = executable = self._ready(scheduled)
        if self._in_place:
            refuse_overlaps(self.fusion, inputs)
        if device is None and not save:
            done = executable.launch(inputs)
            if done is not NotImplemented:
                return done  # type: ignore[no-any-return]
        given = [adopted(value) for value in inputs]
        if device is not None:
            check_device(given, device)
        if save:
            self._repro_inputs = tuple(printer.input_text(value) for value in given)
        results: list[Any] = executable.run(given)
        return results

    def executable(self, scheduled: bool | None = None) -> Any:
        """The executable that calls use; before any, or for another schedule, one of a copy."""
        from warpsmith.engine.executable import Executable

        if self._executable is not None and scheduled in (None, self._scheduled):
            return self._executable
        self.fusion.check_not_empty()
        fusion = self.fusion.draft()
        remove_dead(fusion)
        return Executable(
            fusion, scheduled=is_scheduled(fusion) if scheduled is None else scheduled
        )

    def _ready(self, scheduled: bool) -> Any:
        """The executable of the definition as it stands at the first call."""
        if self._executable is None:
            from warpsmith.engine.executable import Executable

            self.fusion.check_not_empty()
            remove_dead(self.fusion)
            self._executable = Executable(self.fusion, scheduled=scheduled)
            self._scheduled = scheduled
            self._in_place = bool(parts_of(self.fusion))
        if scheduled is not self._scheduled:
            used, other = ("manual_execute", "execute")[:: 1 if self._scheduled else -1]
            raise DefinitionError(
                f"{other} after {used} of one definition",
                code="WS0156",
                remedy=f"go on with {used}, or define it anew",
            )
        return self._executable

    def validate(
        self, inputs: Sequence[object], reference_outputs: Sequence[Any] | None = None, **kw: Any
    ) -> list[Any]:
        """`execute`, and compare with the reference, or with the float64 meaning of the program.

        Raises AssertionError that names the output and its worst element.
        """
        return self._validated(inputs, reference_outputs, self.execute, kw)

    def manual_validate(
        self, inputs: Sequence[object], reference_outputs: Sequence[Any] | None = None, **kw: Any
    ) -> list[Any]:
        """`manual_execute`, and compare as `validate` does."""
        return self._validated(inputs, reference_outputs, self.manual_execute, kw)

    def _validated(
        self, inputs: Sequence[object], reference: Sequence[Any] | None, run: Any, kw: Any
    ) -> list[Any]:
        host = [np.array(arrays.to_numpy(x)) if is_array(x) else x for x in map(adopted, inputs)]
        outputs: list[Any] = run(inputs, **kw)
        validation.check(self.fusion, host, outputs, reference)
        return outputs

    def last_repro_script(self) -> str:
        """Python that repeats the last call that was made with `save_repro_inputs=True`."""
        if self._repro_inputs is None:
            raise DefinitionError(
                "no call was saved",
                code="WS0157",
                remedy="call execute(inputs, save_repro_inputs=True) first",
            )
        return printer.script_text(self.fusion, self._repro_inputs)

    def repro_script_for(self, inputs: Sequence[object] | None = None) -> str:
        """Python that defines the fusion and executes it on arrays like `inputs`."""
        if inputs is None:
            return self.last_repro_script()
        return printer.script_text(
            self.fusion, [printer.input_text(adopted(value)) for value in inputs]
        )


def _own(tensor: TensorView) -> Tensor:
    """A new input as users see it, with the line that defined it."""
    assert isinstance(tensor, Tensor)
    tensor.line = caller()
    return tensor
