"""Part: some operations of a graph, read as a program of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property

from warpsmith.errors import InternalError
from warpsmith.ir.clone import Clones
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.exprs import Pointwise
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.graph import Graph
from warpsmith.ir.memory_format import MemoryFormat
from warpsmith.ir.program import Output
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.values import dataclass

Fact = tuple[Expr, int]


@dataclass(frozen=True)
class Part:
    """Operations of a graph that one kernel may compute; its tensors are known by their numbers.

    Most parts that a planner looks at differ from others in names alone, so a fusion of a part is
    made only when it is asked for.

    Attributes:
        sinks: what it writes.
        positions: of its operations, in order.
        formats: by number, how tensors lie in memory that lie otherwise than the graph says.
        forms: by number of a tensor, that of its cast to the type in which it is stored.
        here: numbers of the sinks that it writes into inputs, in place.
    """

    graph: Graph
    sinks: tuple[int, ...]
    positions: tuple[int, ...]
    formats: Mapping[int, MemoryFormat] = field(default_factory=dict)
    forms: Mapping[int, int] = field(default_factory=dict)
    here: frozenset[int] = frozenset()

    @classmethod
    def of(cls, fusion: Fusion) -> Part:
        """All that a program's outputs need."""
        graph = Graph.of(fusion)
        return cls(graph, graph.outputs, graph.needed)

    @cached_property
    def widened(self) -> dict[int, int]:
        """By number of a value that it reads, that of the narrow form which is in memory."""
        made, forms = self.graph.maker, self.forms
        reads = self.graph.reads(self.positions)
        return {t: forms[t] for t in reads if t in made and t in forms}

    @cached_property
    def reads(self) -> tuple[int, ...]:
        """Numbers of the tensors that it reads from memory, as they come."""
        forms = self.widened
        operands = (forms.get(t, t) for t in self.graph.reads(self.positions))
        places = (o.place.index.number for o in self.results if o.place is not None)
        return tuple(dict.fromkeys((*operands, *places)))

    @cached_property
    def computed(self) -> tuple[int, ...]:
        """Numbers of the tensors that its operations make, widened ones first."""
        return (*self.widened, *(t for p in self.positions for t in self.graph.made(p)))

    @cached_property
    def given(self) -> frozenset[int]:
        """Numbers of the tensors that have no reductions here, and no transforms: those that are
        read of what another part wrote, and those that are widened."""
        return frozenset((*self.widened, *(t for t in self.reads if t in self.graph.maker)))

    @property
    def follows(self) -> bool:
        """Whether it reads what another part wrote."""
        return any(number in self.graph.maker for number in self.reads)

    @cached_property
    def read(self) -> tuple[TensorView, ...]:
        """The tensors that it reads as they lie in memory."""
        return tuple(map(self._lying, self.reads))

    @cached_property
    def written(self) -> tuple[TensorView, ...]:
        """Those that it writes."""
        return tuple(map(self._lying, self.sinks))

    def _lying(self, number: int) -> TensorView:
        tensor = self.graph.tensors[number]
        if number not in self.formats:
            return tensor
        clone = Clones({tensor.fusion: tensor.fusion}).tensor(tensor)
        _lay(clone, self.formats[number])
        return clone

    @cached_property
    def together(self) -> tuple[tuple[int, ...], ...]:
        """The groups of its tensors that the program says are walked together."""
        here = {*self.reads, *self.computed}
        groups = self.graph.fusion.together
        found = (tuple(t.number for t in group if t.number in here) for group in groups)
        return tuple(group for group in found if len(group) > 1)

    @cached_property
    def results(self) -> tuple[Output, ...]:
        """What it writes: results of the program, and what passes to other parts."""
        tensors, known = self.graph.tensors, {o.value.number: o for o in self.graph.fusion.outputs}
        found = (known.get(number) or Output(tensors[number]) for number in self.sinks)
        return tuple(replace(o, here=o.value.number in self.here) for o in found)

    @cached_property
    def facts(self) -> tuple[frozenset[Fact], frozenset[Fact]]:
        """The divisors and limits of the program that concern its sizes."""
        whole = self.graph.fusion
        if not (whole.divisors or whole.limits):
            return whole.divisors, whole.limits
        known = {name for axis in self._axes() for name in _symbols(axis.extent)}
        divisors, limits = (
            frozenset(fact for fact in facts if _symbols(fact[0]) <= known)
            for facts in (whole.divisors, whole.limits)
        )
        return divisors, limits

    def _axes(self) -> Iterator[IterDomain]:
        for number in (*self.reads, *self.computed):
            tensor = self.graph.tensors[number]
            if number in self.given:
                yield from tensor.shape_axes
            else:
                yield from (*tensor.root, *tensor.logical)

    @cached_property
    def fusion(self) -> Fusion:
        """The part as a fusion, to read."""
        return self.draft()

    def draft(self) -> Fusion:
        """A fusion to lay a schedule on; tensors keep their numbers."""
        if circular := set(self.sinks).intersection(self.widened.values()):
            raise InternalError(f"a kernel reads {circular} of those that it writes")
        graph, whole = self.graph, self.graph.fusion
        fusion = whole.blank()
        clones = Clones({whole: fusion})
        read = {number: clones.tensor(graph.tensors[number]) for number in self.reads}
        widened = [
            _widened(read[form], clones.tensor(graph.tensors[number]))
            for number, form in self.widened.items()
        ]
        made = [clones.operation(graph.operations[position]) for position in self.positions]
        fusion.operations = [*widened, *made]
        for number, tensor in read.items():
            if number in self.given:
                _as_input(tensor)
        here = read | {tensor.number: tensor for tensor in fusion.computed}
        for number in self.formats.keys() & {*self.reads, *self.sinks}:
            _lay(here[number], self.formats[number])
        fusion.inputs = [*read.values(), *graph.scalars]
        fusion.follows = self.follows
        fusion.outputs = list(map(clones.output, self.results))
        fusion.together = tuple(tuple(here[n] for n in group) for group in self.together)
        fusion.divisors, fusion.limits = self.facts
        return fusion


def _lay(tensor: TensorView, form: MemoryFormat) -> None:
    tensor.stride_order, tensor.contiguity = form.stride_order, form.contiguity


def _as_input(tensor: TensorView) -> None:
    """What another kernel wrote is an input here: without reductions, as it lies in memory."""
    tensor.definition = None
    tensor.logical = tensor.root = tensor.shape_axes
    tensor.loop = list(tensor.logical)
    tensor.transforms = []


def _widened(stored: TensorView, tensor: TensorView) -> Operation:
    """The operation that makes a tensor of its narrow form in memory."""
    _as_input(tensor)
    operation = Pointwise("cast", (stored,), tensor)
    tensor.definition = operation
    return operation


def _symbols(expr: Expr) -> set[str]:
    return {node.name for node in expr.walk() if isinstance(node, Symbol)}
