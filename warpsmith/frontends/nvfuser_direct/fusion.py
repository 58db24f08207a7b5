"""A fusion under nvFuser's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpsmith.errors import ScheduleError
from warpsmith.frontends import definition as own
from warpsmith.frontends.nvfuser_direct import checks, kernels, pairs, text
from warpsmith.frontends.nvfuser_direct.complex_view import ComplexView
from warpsmith.frontends.nvfuser_direct.descriptor import repeated_first
from warpsmith.frontends.nvfuser_direct.enums import DataType, ours, theirs
from warpsmith.frontends.nvfuser_direct.failures import as_runtime_errors
from warpsmith.frontends.nvfuser_direct.hidden import Hidden
from warpsmith.frontends.nvfuser_direct.inputs import Call, Input, flat, passed_type, returned
from warpsmith.frontends.nvfuser_direct.seeds import SeedView
from warpsmith.frontends.nvfuser_direct.statements import Val
from warpsmith.frontends.nvfuser_direct.streams import Streams
from warpsmith.frontends.nvfuser_direct.values import TensorView
from warpsmith.ir.domains import IterDomain, ParallelType
from warpsmith.ir.dtypes import DataType as Type
from warpsmith.ir.scalar import Const
from warpsmith.ir.tensor import TensorView as Tensor
from warpsmith.ops import full
from warpsmith.schedule import transforms


class Fusion:
    """A fusion: inputs, operations, outputs.

    Attributes:
        definition: the fusion in warpsmith's words.
        hidden: its inputs that callers do not pass.
        streams: what runs in pieces.
        automatic: whether `schedule` left the schedule to warpsmith.
    """

    def __init__(self) -> None:
        self.definition = own.FusionDefinition()
        self.hidden = Hidden(self.definition)
        self.streams = Streams(self.definition)
        self.automatic = False
        self._lines: list[text.Line] = []
        self._inputs: list[Input] = []
        self._known: dict[Any, Val] = {}
        self._counts = {"tv": 0, "c": 1}
        self._outputs: list[Val] = []
        self._results: list[Val] = []
        self._written: dict[Val, Val] = {}
        self._changes = False
        self._waiting: list[kernels.Binding] = []
        self._seeds: set[Tensor] = set()

    @property
    def ours(self) -> Any:
        """The program of warpsmith."""
        return self.definition.fusion

    def inputs(self) -> list[Val]:
        return [each.val for each in self._inputs]

    def outputs(self) -> list[Val]:
        return list(self._outputs)

    def results(self) -> list[Val]:
        """The outputs that a call returns: all but what is written into an input."""
        return list(self._results)

    def vals(self) -> list[Val]:
        """All tensors and input scalars."""
        made = [self.wrapped(each) for op in self.ours.operations for each in op.outputs]
        return [*self.inputs(), *made]

    def print_math(self, from_outputs_only: bool = True) -> str:
        """The program, and the loops of each tensor."""
        tensors = [value for value in self.vals() if isinstance(value, TensorView)]
        loops = "".join(f"  {tensor}\n" for tensor in tensors)
        return f"{self.text()}loops:\n{loops}"

    def print(self) -> None:
        """Print what `print_math` says."""
        print(self.print_math())

    def print_kernel(self, compile_params: object = None) -> str:
        """CUDA of the kernel, by the schedule that was laid."""
        self.settle()
        with as_runtime_errors():
            return kernels.cuda_of_schedule(self.definition)

    def bind(self, tensor: Tensor, domain: IterDomain, kind: ParallelType) -> None:
        """Bind a loop, or let it wait where loops that TMA copies are not the innermost yet."""
        try:
            transforms.bind(tensor, domain, kind)
        except ScheduleError as error:
            if error.code != "WS0218":
                raise
            self._waiting.append((tensor, domain, kind))

    def cut(self, tensor: Tensor, domain: IterDomain) -> None:
        """Run a loop on streams."""
        self.streams.cut(tensor, domain)

    def settle(self) -> None:
        """Move the loops that TMA copies inside, and bind what waits for that."""
        with as_runtime_errors():
            kernels.settle(self._waiting)
        self._waiting.clear()

    def text(self) -> str:
        """The program as Python."""
        return text.program(self._lines)

    def add_input(self, input: Val) -> None:
        """Make an input the last one so far."""
        (found,) = (each for each in self._inputs if each.val is input)
        self._inputs.remove(found)
        self._inputs.append(found)

    def add_output(self, output: Val, alias_input: TensorView | None = None) -> None:
        """Make a tensor a result, which is written into an input if one is named."""
        is_outside = alias_input is None and self.hidden.is_outside(output.value)
        with as_runtime_errors():
            made = output.value
            made = pairs.joined(made) if isinstance(made, pairs.Pair) else made
            alias = alias_input if alias_input is None else text.stored(alias_input)
            if not is_outside:
                self.definition.add_output(made, alias)
        self._outputs.append(output)
        is_other = is_outside or isinstance(output, ComplexView | SeedView)
        self._changes |= alias_input is not None or is_other
        if alias_input is None:
            self._results.append(output)
        else:
            self._written[output] = alias_input
        values = [output] if alias_input is None else [output, alias_input]
        self.record([], values, f"fd.add_output({', '.join(each.name for each in values)})")

    def define_tensor(
        self,
        shape: Sequence[int] | None = None,
        contiguity: bool | Sequence[bool | None] | Sequence[int] = False,
        dtype: DataType = DataType.Float,
        is_cpu: bool = False,
        stride_order: Sequence[int] = (),
        *,
        sizes: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        static_sizes: bool = False,
    ) -> TensorView:
        """An input tensor, by shape and contiguity or by sizes and strides of an example.

        `warpsmith.FusionDefinition.define_tensor` says more; of a dimension whose contiguity is
        None, each call's stride is looked at. A tensor of the CPU has no dimension: a call passes
        its number to the kernel.
        """
        checks.extents(sizes if shape is None else shape)
        if dtype in pairs.PARTS:
            told = pairs.layout(shape, contiguity, stride_order, sizes, strides, static_sizes)
            return self._define_complex(*told, dtype)
        is_seed = dtype is DataType.UInt64
        kind, scalar = Type.Int if is_seed else ours(dtype), None
        with as_runtime_errors():
            if is_cpu:
                scalar = self.definition.define_scalar(passed_type(kind))
                tensor = full([], scalar, kind, fusion=self.ours)
            else:
                if isinstance(contiguity, list | tuple) and shape is not None:
                    contiguity, stride_order = repeated_first(shape, contiguity, stride_order)
                tensor = self.definition.define_tensor(
                    shape,
                    contiguity,
                    kind,
                    stride_order=stride_order,
                    sizes=sizes,
                    strides=strides,
                    static_sizes=static_sizes,
                )
        if is_seed:
            self.seed(tensor)
        return self._declared(tensor, tensor if scalar is None else scalar, is_cpu)

    def _define_complex(
        self, shape: list[int], flags: Any, order: list[int], dtype: DataType
    ) -> TensorView:
        """An input tensor of complex numbers, by what is known of the tensor of their parts."""
        with as_runtime_errors():
            if isinstance(flags, list):
                flags, order = repeated_first(shape, flags, order)  # type: ignore[assignment]
            kind = pairs.PARTS[dtype]
            raw = self.definition.define_tensor(shape, flags, kind, stride_order=order)
            return self._declared(pairs.halves(raw), raw, False)

    def _declared(self, value: Any, passed: Any, is_cpu: bool) -> TensorView:
        """An input tensor under its name, with its line."""
        made = self.wrapped(value)
        assert isinstance(made, TensorView)
        self._inputs.append(Input(made, passed))
        self.record([made], [], text.declaration(made, is_cpu), is_input=True)
        if not is_cpu:
            self._counts["c"] += sum(
                not isinstance(axis.extent, Const) for axis in passed.shape_axes
            )
        return made

    def define_scalar(self, value: Any = None, dtype: DataType | None = None) -> Val:
        """A scalar input, `define_scalar(dtype=Double)`, or a constant, `define_scalar(value)`."""
        if isinstance(value, DataType):
            value, dtype = None, value
        if isinstance(value, complex) or dtype in pairs.PARTS:
            return self._define_complex_scalar(value, dtype or DataType.ComplexDouble)
        with as_runtime_errors():
            if value is None:
                kind = ours(dtype or DataType.Double) or Type.Double
                made = self.wrapped(self.definition.define_scalar(passed_type(kind)))
                self._inputs.append(Input(made, made.value))
                said = DataType.Double if dtype is None else dtype
            else:
                kind = None if dtype is None else ours(dtype)
                made = self.wrapped(self.definition.define_scalar(value, dtype=kind))
                said = theirs(made.value.dtype)
        line = f"fd.define_scalar({text.literal(value)}, dtype=DataType.{said.name})"
        self.record([made], [], line, is_input=value is None)
        return made

    def _define_complex_scalar(self, value: complex | None, dtype: DataType) -> Val:
        kind = pairs.PARTS[dtype]
        if value is not None:
            made = self.wrapped(pairs.constant(complex(value), dtype))
        else:
            re, im = (self.definition.define_scalar(kind) for _ in range(2))
            made = self.wrapped(pairs.Pair(re, im))
            self._inputs.append(Input(made, made.value))
        line = f"fd.define_scalar({text.literal(value)}, dtype=DataType.{dtype.name})"
        self.record([made], [], line, is_input=value is None)
        return made

    def size(self, tensor: TensorView, dim: int) -> Val:
        """Extent of a dimension."""
        with as_runtime_errors():
            found = tensor.value.size(dim)
        if self.knows(found):
            return self.wrapped(found)
        made = self.wrapped(found)
        said = f"fd.ops.size({tensor.name}, dim={dim % tensor.ndim})"
        self.record([made], [tensor], said)
        return made

    def seed(self, tensor: Tensor) -> Tensor:
        """Name a tensor of Ints as what it is to callers: UInt64."""
        self._seeds.add(tensor)
        return tensor

    def is_seed(self, value: Any) -> bool:
        """Whether a value is a tensor of UInt64."""
        return isinstance(value, Tensor) and value in self._seeds

    def skip(self) -> None:
        """Leave out a tensor's number, as where nvFuser makes two tensors of what is one here."""
        self._counts["tv"] += 1

    def knows(self, value: Any) -> bool:
        """Whether a value of warpsmith has its name already."""
        return value in self._known

    def wrapped(self, value: Any) -> Val:
        """A value of warpsmith under nvFuser's names."""
        if self.knows(value):
            return self._known[value]
        is_complex = isinstance(value, pairs.Pair)
        is_tensor = value.is_tensor if is_complex else isinstance(value, Tensor)
        kind = "tv" if is_tensor else "c"
        tensors = SeedView if value in self._seeds else TensorView
        form = (ComplexView if is_complex else tensors) if is_tensor else Val
        made = form(value, self, f"{kind}{self._counts[kind]}")
        self._counts[kind] += 1
        self._known[value] = made
        return made

    def record(
        self, made: Sequence[Val], arguments: Sequence[Any], said: str, *, is_input: bool = False
    ) -> None:
        """Keep the statement that defined values."""
        names = tuple(value.name for value in made)
        self._lines.append(text.Line(names, text.reads(list(arguments)), said, is_input))

    def _is_plain(self) -> bool:
        """Whether a call passes just what warpsmith takes: tensors, in its order."""
        own = self.ours.inputs
        return (
            not self._seeds
            and len(own) == len(self._inputs)
            and all(
                each.passed is each.val.value is value and isinstance(value, Tensor)
                for each, value in zip(self._inputs, own, strict=True)
            )
        )

    def arranged(self, inputs: Sequence[Any]) -> list[Any]:
        """What a call passes as warpsmith takes it."""
        return self.call(inputs).passed

    def call(self, inputs: Sequence[Any]) -> Call:
        """A call: lists of scalars as scalars, numbers of tensors of the CPU, and what is hidden,
        in warpsmith's order.
        """
        if self._is_plain():
            values = dict(zip(self.inputs(), inputs, strict=False)) if self._changes else {}
            return Call(values, list(inputs), {})
        given = flat(inputs)
        if len(given) != len(self._inputs):
            return Call({}, given, {})  # what is wrong is said where arguments are bound
        passed: dict[Any, Any] = {}
        for each, value in zip(self._inputs, given, strict=True):
            passed |= each.parts(value)
        found = self.hidden.found(passed)
        values = dict(zip(self.inputs(), given, strict=True))
        return Call(values, [found[each] for each in self.ours.inputs], found)

    def returned(self, results: list[Any], call: Call) -> list[Any]:
        """What a call returns for its results."""
        if not self._changes:
            return results
        is_outside = self.hidden.is_outside
        return returned(self._results, results, self._written, call, is_outside)


def translate_fusion(fusion: Fusion) -> str:
    """A fusion as Python."""
    return fusion.text()
