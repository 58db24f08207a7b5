"""Graph: a program that nothing changes any more, as a planner reads it.

Tensors are known by their numbers, operations by their positions. A part of a program is made a
`Fusion` of its own only where a schedule is to be laid on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from warpsmith.ir.exprs import Operation, tensor_inputs
from warpsmith.ir.fusion import Fusion, Output
from warpsmith.ir.tensor import TensorView
from warpsmith.ir.twins import Twins


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """The operations of a fusion, with who makes and who reads each tensor.

    Attributes:
        fusion: the program, which is read only.
        maker: by number of a tensor, the position of the operation that defines it.
        readers: by number of a tensor, the positions of the operations that read it, in order.
        tensors: every tensor by its number.
        outputs: numbers of the results, in order, each once.
        results: the same as a set.
    """

    fusion: Fusion
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
            maker,
            {number: tuple(found) for number, found in readers.items()},
            {tensor.number: tensor for tensor in fusion.tensors},
            tuple(outputs),
            frozenset(outputs),
        )

    @property
    def needed(self) -> tuple[int, ...]:
        """Positions of the operations that the outputs need."""
        return self.slice(self.outputs, ())

    @property
    def operations(self) -> Sequence[Operation]:
        return self.fusion.operations

    def made(self, position: int) -> tuple[int, ...]:
        """Numbers of an operation's results."""
        return tuple(output.number for output in self.operations[position].outputs)

    def sources(self, position: int) -> tuple[int, ...]:
        """Numbers of the tensors that an operation reads, each once."""
        return tuple(tensor.number for tensor in tensor_inputs(self.operations[position]))

    def slice(self, sinks: Iterable[int], stored: Collection[int]) -> tuple[int, ...]:
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
        orders: Mapping[int, tuple[int, ...]] = MappingProxyType({}),
    ) -> Fusion:
        """A fusion of these operations, to lay a schedule on; tensors keep their numbers.

        Args:
            orders: by number, the `stride_order` of tensors that lie otherwise than the graph says.
        """
        whole = self.fusion
        fusion = whole.blank()
        twins = Twins({id(whole): fusion})
        read = [twins.tensor(self.tensors[number]) for number in self.reads(positions)]
        stored = [number in self.maker for number in self.reads(positions)]
        fusion.operations = [twins.operation(self.operations[position]) for position in positions]
        made_here = {t.number: t for t in fusion.computed} | {t.number: t for t in read}
        for tensor, made in zip(read, stored, strict=True):
            if made:
                as_input(tensor)
        fusion.inputs = [*read, *whole.input_scalars]
        fusion.follows = any(stored)
        for number, order in orders.items():
            if number in made_here:
                made_here[number].stride_order = order
        aliases = {output.value.number: output.alias_of for output in whole.outputs}
        for number in sinks:
            alias = aliases.get(number)
            into = None if alias is None else twins.tensor(alias)
            fusion.outputs.append(Output(twins.tensor(self.tensors[number]), into))
        return fusion


def as_input(tensor: TensorView) -> None:
    """What another kernel wrote is an input here: without reductions, as it lies in memory."""
    tensor.definition = None
    tensor.logical = tensor.root = tensor.shape_axes
    tensor.loop = list(tensor.logical)
    tensor.transforms = []
