"""Graph: a program that nothing changes any more, as a planner reads it.

Tensors are known by their numbers, operations by their positions. A part of a program is made a
`Fusion` of its own only where a schedule is to be laid on it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from warpsmith.ir.clone import Clones
from warpsmith.ir.exprs import Operation, Pointwise, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.memory_format import MemoryFormat
from warpsmith.ir.program import Output
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.ir.tensor import TensorView


@dataclass(frozen=True, eq=False)
class Graph:
    """The operations of a fusion, with who makes and who reads each tensor.

    Attributes:
        fusion: the program, which is read only.
        operations: in an order in which they can run.
        maker: by number of a tensor, the position of the operation that defines it.
        readers: by number of a tensor, the positions of the operations that read it, in order.
        tensors: every tensor by its number.
        outputs: numbers of the results, in order, each once.
        results: the same as a set.
    """

    fusion: Fusion
    operations: tuple[Operation, ...]
    maker: Mapping[int, int]
    readers: Mapping[int, tuple[int, ...]]
    tensors: Mapping[int, TensorView]
    outputs: tuple[int, ...]
    results: frozenset[int]

    @classmethod
    def of(cls, fusion: Fusion) -> Graph:
        maker: dict[int, int] = {}
        readers: dict[int, list[int]] = {}
        for position, operation in enumerate(fusion.operations):
            for source in tensor_inputs(operation):
                readers.setdefault(source.number, []).append(position)
            for output in operation.outputs:
                maker[output.number] = position
        outputs = dict.fromkeys(output.value.number for output in fusion.outputs)
        return cls(
            fusion,
            tuple(fusion.operations),
            maker,
            {number: tuple(found) for number, found in readers.items()},
            {tensor.number: tensor for tensor in fusion.tensors},
            tuple(outputs),
            frozenset(outputs),
        )

    @cached_property
    def needed(self) -> tuple[int, ...]:
        """Positions of the operations that the outputs need, in order."""
        return self.slice(self.outputs, ())

    @cached_property
    def live(self) -> frozenset[int]:
        """The same as a set."""
        return frozenset(self.needed)

    def uses(self, tensor: TensorView) -> tuple[Operation, ...]:
        """Operations that read a tensor, in order."""
        return tuple(self.operations[position] for position in self.readers.get(tensor.number, ()))

    def made(self, position: int) -> tuple[int, ...]:
        """Numbers of an operation's results."""
        return tuple(output.number for output in self.operations[position].outputs)

    def sources(self, position: int) -> tuple[int, ...]:
        """Numbers of the tensors that an operation reads, each once."""
        return tuple(tensor.number for tensor in tensor_inputs(self.operations[position]))

    def slice(self, sinks: Iterable[int], stored: Container[int]) -> tuple[int, ...]:
        """Positions of the operations that make the sinks of inputs and of what is stored.

        A sink is made, whether it is stored or not.
        """
        own = set(sinks)
        pending = list(own)
        chosen: set[int] = set()
        while pending:
            position = self.maker.get(pending.pop())
            if position is None or position in chosen:
                continue
            chosen.add(position)
            pending += [t for t in self.sources(position) if t not in stored or t in own]
        return tuple(sorted(chosen))

    def reads(self, positions: Sequence[int]) -> tuple[int, ...]:
        """Numbers of the tensors that operations read and none of them makes, as they come."""
        made = {number for position in positions for number in self.made(position)}
        found = dict.fromkeys(t for position in positions for t in self.sources(position))
        return tuple(number for number in found if number not in made)

    def part(
        self,
        sinks: Sequence[int],
        positions: Sequence[int],
        formats: Mapping[int, MemoryFormat] = MappingProxyType({}),
        forms: Mapping[int, int] = MappingProxyType({}),
    ) -> Fusion:
        """A fusion of these operations, to lay a schedule on; tensors keep their numbers.

        Args:
            formats: by number, how tensors lie in memory that lie otherwise than the graph says.
            forms: by number of a tensor, that of its cast to the type in which it is stored.
        """
        whole = self.fusion
        fusion = whole.blank()
        clones = Clones({whole: fusion})
        reads = self.reads(positions)
        stored = [forms.get(t, t) if t in self.maker else t for t in reads]
        read = {number: clones.tensor(self.tensors[number]) for number in stored}
        widened = [
            _widened(read[form], clones.tensor(self.tensors[number]))
            for number, form in zip(reads, stored, strict=True)
            if form != number
        ]
        made = [clones.operation(self.operations[position]) for position in positions]
        fusion.operations = [*widened, *made]
        for number, tensor in read.items():
            if number in self.maker:
                as_input(tensor)
        here = read | {tensor.number: tensor for tensor in fusion.computed}
        for number in formats.keys() & here.keys():
            here[number].stride_order = formats[number].stride_order
            here[number].contiguity = formats[number].contiguity
        fusion.inputs = [*read.values(), *whole.input_scalars]
        fusion.follows = any(number in self.maker for number in read)
        aliases = {output.value.number: output.alias_of for output in whole.outputs}
        for number in sinks:
            alias = aliases.get(number)
            into = None if alias is None else clones.tensor(alias)
            fusion.outputs.append(Output(clones.tensor(self.tensors[number]), into))
        groups = (tuple(here[t.number] for t in g if t.number in here) for g in whole.together)
        fusion.together = tuple(group for group in groups if len(group) > 1)
        known = _sizes(fusion)
        fusion.divisors = frozenset(f for f in whole.divisors if _symbols(f[0]) <= known)
        fusion.limits = frozenset(f for f in whole.limits if _symbols(f[0]) <= known)
        return fusion


def as_input(tensor: TensorView) -> None:
    """What another kernel wrote is an input here: without reductions, as it lies in memory."""
    tensor.definition = None
    tensor.logical = tensor.root = tensor.shape_axes
    tensor.loop = list(tensor.logical)
    tensor.transforms = []


def _widened(stored: TensorView, tensor: TensorView) -> Operation:
    """The operation that makes a tensor of its narrow form in memory."""
    as_input(tensor)
    operation = Pointwise("cast", (stored,), tensor)
    tensor.definition = operation
    return operation


def _sizes(fusion: Fusion) -> set[str]:
    """Names of the symbols that sizes of a fusion's tensors are made of."""
    axes = (axis for tensor in fusion.tensors for axis in (*tensor.root, *tensor.logical))
    return {name for axis in axes for name in _symbols(axis.extent)}


def _symbols(expr: Expr) -> set[str]:
    return {node.name for node in expr.walk() if isinstance(node, Symbol)}
