"""The operations of a call by kernel, and the tensors in memory around them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum

from warpsmith.engine.facts import KernelFacts
from warpsmith.engine.launches import CallPlan
from warpsmith.engine.planned import PlannedSegment
from warpsmith.ir.exprs import Full, Iota, Matmul, Move, Pointwise, Reduction, Scan, tensor_inputs
from warpsmith.ir.lines import lines_of, own_lines
from warpsmith.ir.reads import Read, Search
from warpsmith.ir.scalar import Const, Expr
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.page.sources import Lines
from warpsmith.planner.cuts import Cut
from warpsmith.planner.stored import Stored
from warpsmith.values import dataclass

_CONSTANT = 10
"""Signs of a constant that an operation is shown with."""


class Kind(Enum):
    """What a node stands for."""

    INPUT = "input"
    CUT = "cut"
    OUTPUT = "output"
    OPERATION = "operation"
    COPY = "copy"
    """It computes nothing: a cast, a broadcast, a move."""

    @property
    def is_memory(self) -> bool:
        return self in (Kind.INPUT, Kind.CUT, Kind.OUTPUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """An operation, or a tensor in memory.

    Attributes:
        key: tells it apart from all others.
        kernel: that computes it; of memory, the one above which it stands, one behind the last.
        layer: within the kernel, or of the row of memory.
        label, detail: what is written into it.
        about: a sentence or more.
        lines: of the user's program.
        tensor: that it makes, or is.
    """

    key: str
    kind: Kind
    kernel: int
    layer: int
    label: str
    detail: str
    about: str
    lines: Lines
    tensor: str


@dataclass(frozen=True, slots=True)
class Edge:
    """The result of one node is what another one reads."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class ProgramGraph:
    """Nodes by kernel, in order, and what passes between them."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    @property
    def operations(self) -> int:
        return sum(not node.kind.is_memory for node in self.nodes)

    def counted(self, kernel: int) -> Counter[str]:
        """By name, how often an operation is in a kernel."""
        return Counter(
            node.label.split(" ")[0]
            for node in self.nodes
            if node.kernel == kernel and not node.kind.is_memory
        )


def program_graph(
    call: CallPlan, kernels: Sequence[KernelFacts], cuts: Sequence[Cut]
) -> ProgramGraph:
    """What each kernel of a call computes, what it reads and writes.

    A tensor stands above each kernel that reads it, and below the one that writes it: what the next
    kernel reads of the last one is there once.
    """
    made = _Maker(call, {cut.tensor.name: cut for cut in cuts})
    for kernel, planned in zip(kernels, call.segments, strict=True):
        made.kernel(kernel, planned)
    return ProgramGraph(tuple(made.nodes.values()), tuple(dict.fromkeys(made.edges)))


class _Maker:
    def __init__(self, call: CallPlan, cuts: Mapping[str, Cut]) -> None:
        self.nodes: dict[str, Node] = {}
        self.edges: list[Edge] = []
        self._cuts = cuts
        self._writer: dict[str, int] = {}
        self._outputs = {output.name for output in call.outputs}

    def kernel(self, kernel: KernelFacts, planned: PlannedSegment) -> None:
        fusion, number = planned.segment.fusion, kernel.number
        lines = lines_of(fusion, own_lines(fusion))
        for each in kernel.reads:
            self._memory(each, number, lines.get(each.name, ()))
        places = {each.name: f"{number}/{each.name}" for each in kernel.reads}
        layers = _layers(fusion.operations)
        for operation in fusion.operations:
            name = operation.outputs[0].name
            key = f"{number}:{name}"
            own = tuple(sorted({line for t in operation.outputs for line in lines[t.name]}))
            self.nodes[key] = Node(
                key=key,
                kind=Kind.COPY if _computes_nothing(operation) else Kind.OPERATION,
                kernel=number,
                layer=layers[name],
                label=_label(operation),
                detail=name,
                about=_about(operation),
                lines=own,
                tensor=name,
            )
            places |= {output.name: key for output in operation.outputs}
            for source in tensor_inputs(operation):
                self.edges.append(Edge(places[source.name], key))
        for each in kernel.writes:
            self._writer[each.name] = number
            self._memory(each, number + 1, lines.get(each.name, ()))
            if each.name in places:
                self.edges.append(Edge(places[each.name], f"{number + 1}/{each.name}"))

    def _memory(self, tensor: Stored, row: int, lines: Lines) -> None:
        """A tensor in the row of memory above kernel `row`."""
        key, cut = f"{row}/{tensor.name}", self._cuts.get(tensor.name)
        writer = self._writer.get(tensor.name)
        kind = Kind.CUT if writer is not None else Kind.INPUT
        if writer is not None and tensor.name in self._outputs:
            kind = Kind.OUTPUT
        detail, about = size_text(tensor.size), f"{tensor}: {tensor.size:,} bytes"
        if writer is not None and writer != row - 1:
            detail += f", of kernel {writer}"
        elif cut is not None:
            detail += f", {cut.us:.3g} µs"
        if cut is not None:
            about = "\n".join(line.strip() for line in cut.lines())
        self.nodes.setdefault(
            key,
            Node(
                key=key,
                kind=kind,
                kernel=row,
                layer=0,
                label=str(tensor),
                detail=detail,
                about=about,
                lines=lines,
                tensor=tensor.name,
            ),
        )


def _layers(operations: Sequence[Operation]) -> dict[str, int]:
    """By name of a first result, the layer of an operation: as low as what reads it allows."""
    below: dict[TensorView, int] = {}
    for operation in reversed(operations):
        depth = max((below.get(output, 0) for output in operation.outputs), default=0)
        for source in tensor_inputs(operation):
            below[source] = max(below.get(source, 0), depth + 1)
    depths = {op.outputs[0].name: max(below.get(o, 0) for o in op.outputs) for op in operations}
    deepest = max(depths.values(), default=0)
    return {name: deepest - depth for name, depth in depths.items()}


def _computes_nothing(operation: Operation) -> bool:
    return isinstance(operation, Move) or (
        isinstance(operation, Pointwise) and operation.op in ("cast", "set")
    )


def _label(operation: Operation) -> str:
    """`mul 0.5`, `sum`, `matmul`: the name of an operation, and its constants."""
    constants = " ".join(_constant(value) for value in operation.inputs if isinstance(value, Expr))
    return f"{name_of(operation)} {constants}".strip()


def name_of(operation: Operation) -> str:
    """The word for an operation."""
    match operation:
        case Pointwise(op=op) | Search(op=op):
            return op
        case Move(kind=kind) | Read(kind=kind):
            return kind
        case Reduction(carry=carry):
            return carry.name
        case Scan(carry=carry):
            return f"scan-{carry.name}"
        case Matmul():
            return "matmul"
        case Full():
            return "full"
        case Iota():
            return "iota"
    return type(operation).__name__.lower()


def _constant(value: Expr) -> str:
    text = f"{value.value:.6g}" if isinstance(value, Const) else repr(value)
    return text if len(text) <= _CONSTANT else f"{text[: _CONSTANT - 1]}…"


def _about(operation: Operation) -> str:
    """`T5 = add(T2, T4)`, with the types."""
    results = ", ".join(f"{t.name} {t.dtype.value}" for t in operation.outputs)
    values = ", ".join(_operand(value) for value in operation.inputs)
    return f"{results} = {name_of(operation)}({values})"


def _operand(value: object) -> str:
    return value.name if isinstance(value, TensorView) else repr(value)


_UNITS = ("B", "kB", "MB", "GB", "TB")


def size_text(size: float) -> str:
    """`33.6 MB`: three digits, by powers of 1000."""
    for unit in _UNITS:
        if size < 999.5 or unit == _UNITS[-1]:
            return f"{size:.3g} {unit}"
        size /= 1000
    raise AssertionError("the last unit takes all")
