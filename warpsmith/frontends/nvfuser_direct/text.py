"""A fusion as the program that defines it, in nvFuser's words."""

from __future__ import annotations

from cmath import isfinite
from collections.abc import Mapping, Sequence
from enum import Enum
from inspect import Parameter
from typing import Any

from warpsmith.frontends import printer
from warpsmith.frontends.nvfuser_direct.pairs import Pair
from warpsmith.frontends.nvfuser_direct.statements import Val
from warpsmith.frontends.nvfuser_direct.values import TensorView
from warpsmith.ir.scalar import Const
from warpsmith.values import dataclass

_REDUCTIONS = ("max", "min", "prod", "sum")


@dataclass(frozen=True)
class Line:
    """One statement: what it defines, by name, from what, and its text behind the `=`."""

    makes: tuple[str, ...]
    reads: tuple[str, ...]
    text: str
    is_input: bool = False

    def __str__(self) -> str:
        return f"{', '.join(self.makes)} = {self.text}" if self.makes else self.text


def program(lines: Sequence[Line]) -> str:
    """`def nvfuser_fusion(fd)`: inputs, what outputs need in the order in which they need it, and
    outputs. Without outputs, all that was defined.
    """
    inputs = [line for line in lines if line.is_input]
    outputs = [line for line in lines if not line.makes]
    between = _needed(lines, outputs) if outputs else [x for x in lines if not x.is_input]
    body = "".join(f"    {line}\n" for line in (*inputs, *between, *outputs)) or "    pass\n"
    return f"def nvfuser_fusion(fd : FusionDefinition) -> None :\n{body}"


def _needed(lines: Sequence[Line], outputs: Sequence[Line]) -> list[Line]:
    """The lines that outputs need, each behind those that it reads itself."""
    makers = {name: line for line in lines if not line.is_input for name in line.makes}
    found: dict[Line, None] = {}
    coming = [(line, False) for line in reversed(outputs)]
    while coming:
        line, is_ready = coming.pop()
        if line in found:
            continue
        if is_ready:
            found[line] = None
            continue
        coming.append((line, True))
        coming += [(makers[name], False) for name in reversed(line.reads) if name in makers]
    return [line for line in found if line.makes]


def script(definition: str, inputs: Sequence[str] | None) -> str:
    """A script that defines a fusion, and executes it on inputs, which are expressions."""
    import torch

    found = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    devices = "".join(f"#  {i}: {name}\n" for i, name in enumerate(found))
    begun = (
        f"# CUDA devices:\n{devices}"
        f"# torch version: {torch.__version__}\n"
        f"# cuda version: {torch.version.cuda}\n"
        "import torch\n"
        "from nvfuser_direct import FusionDefinition, DataType\n"
        f"{definition}"
        "with FusionDefinition() as fd:\n"
        "    nvfuser_fusion(fd)\n"
    )
    if inputs is None:
        return begun
    given = "".join(f"    {text},\n" for text in inputs)
    return f"{begun}\ninputs = [\n{given}]\nfd.execute(inputs)\n"


def input_text(value: Any) -> str:
    """An expression that makes an input with the shape, strides, type and place of `value`."""
    if isinstance(value, bool | int | float | complex):
        return literal(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(input_text, value))}]"
    if type(value).__module__.partition(".")[0] != "torch" or not value.is_contiguous():
        return printer.input_text(value)
    shape = tuple(value.shape)
    return f"torch.testing.make_tensor({shape}, dtype={value.dtype}, device='{value.device}')"


def stored(tensor: TensorView) -> Any:
    """A tensor as warpsmith has it: of complex numbers that are an input what holds both parts."""
    value = tensor.value
    if not isinstance(value, Pair):
        return value
    return value.re if value.raw is None else value.raw


def declaration(tensor: TensorView, is_cpu: bool) -> str:
    """`fd.define_tensor(...)`, with contiguity from the slowest dimension in memory on."""
    value, rank = stored(tensor), tensor.ndim
    sizes = [axis.extent for axis in value.shape_axes[:rank]]
    shape = [int(size.value) if isinstance(size, Const) else -1 for size in sizes]
    flags = [
        None if value.shape_axes[d].is_broadcast else value.contiguity[d]
        for d in value.memory_order()
        if d < rank
    ]
    ranks = value.stride_order
    if ranks is not None:
        ranks = [each - (len(ranks) - rank) for each in ranks[:rank]]
    order = "" if ranks is None else f", stride_order={ranks}"
    return (
        f"fd.define_tensor(shape={shape}, contiguity={flags}, "
        f"dtype=DataType.{tensor.dtype().name}, is_cpu={is_cpu}{order})"
    )


def call(
    name: str, parameters: Mapping[str, Parameter], given: Mapping[str, Any], made: Sequence[Any]
) -> str:
    """`fd.ops.NAME(...)`: operands by place, all else by name, and nothing that is the default."""
    said, by_name = [], False
    for key, value in _normal(name, given, made).items():
        parameter = parameters[key]
        if parameter.default is not Parameter.empty and same(value, parameter.default):
            by_name = True
            continue
        by_name = by_name or parameter.default is not Parameter.empty or not _is_operand(value)
        said.append(f"{key}={literal(value)}" if by_name else literal(value))
    return f"fd.ops.{name}({', '.join(said)})"


def _normal(name: str, given: Mapping[str, Any], made: Sequence[Any]) -> dict[str, Any]:
    """Arguments with dimensions counted from the first one, and the type that a reduction has."""
    arguments = dict(given)
    tensor = next(iter(arguments.values()), None)
    if isinstance(tensor, TensorView):
        dims = arguments.get("dims", arguments.pop("dim", None) if name in _REDUCTIONS else None)
        if isinstance(dims, Enum):  # the type stood in their place
            del arguments["dims"]
        if isinstance(dims, int):
            dims = [dims]
        if isinstance(dims, Sequence) and all(type(d) is int for d in dims):
            arguments["dims"] = [d % max(tensor.ndim, 1) for d in dims]
        if name in _REDUCTIONS and isinstance(made[0], TensorView):
            arguments["dtype"] = made[0].dtype()
    return arguments


def _is_operand(value: object) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and all(isinstance(each, TensorView) for each in value)
    return isinstance(value, Val | bool | int | float)


def same(value: object, default: object) -> bool:
    """Whether an argument is what it would be by default; values of a fusion never are."""
    return not isinstance(value, Val) and type(value) is type(default) and value == default


def reads(value: object) -> tuple[str, ...]:
    """Names of the values that an argument mentions."""
    if isinstance(value, Val):
        return (value.name,)
    if isinstance(value, list | tuple):
        return tuple(name for each in value for name in reads(each))
    return ()


def literal(value: object) -> str:
    """An argument as Python."""
    if isinstance(value, Val):
        return value.name
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, complex) and not isfinite(value):
        return f'complex("{value}")'
    return repr(value)


def number(value: float) -> str:
    """A float with five places, as nvFuser prints it, or with as many as it takes."""
    if value != value or value in (float("inf"), -float("inf")):
        return f'float("{value}")'
    short = f"{value:.5f}"
    return short if float(short) == value else repr(value)
