"""Graph: a program that nothing changes any more, as a planner reads it.

Tensors are known by their numbers, operations by their positions.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cached_property

from warpsmith.ir.exprs import tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Symbol
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.values import dataclass


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
        scalars: those among the inputs.
    """

    fusion: Fusion
    operations: tuple[Operation, ...]
    maker: Mapping[int, int]
    readers: Mapping[int, tuple[int, ...]]
    tensors: Mapping[int, TensorView]
    outputs: tuple[int, ...]
    results: frozenset[int]
    scalars: tuple[Symbol, ...]
    _sources: tuple[tuple[int, ...], ...]
    _made: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, fusion: Fusion) -> Graph:
        operations = tuple(fusion.operations)
        made = tuple([tuple([output.number for output in op.outputs]) for op in operations])
        sources = tuple([tuple([t.number for t in tensor_inputs(op)]) for op in operations])
        readers: dict[int, list[int]] = {}
        for position, read in enumerate(sources):
            for source in read:
                readers.setdefault(source, []).append(position)
        outputs = dict.fromkeys(output.value.number for output in fusion.outputs)
        return cls(
            fusion,
            operations,
            {number: position for position, numbers in enumerate(made) for number in numbers},
            {number: tuple(found) for number, found in readers.items()},
            {tensor.number: tensor for tensor in fusion.tensors},
            tuple(outputs),
            frozenset(outputs),
            fusion.input_scalars,
            sources,
            made,
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

    def live_readers(self, tensor: TensorView) -> int:
        """Operations that read a tensor, and that results need."""
        return len(self.live.intersection(self.readers.get(tensor.number, ())))

    def made(self, position: int) -> tuple[int, ...]:
        """Numbers of an operation's results."""
        return self._made[position]

    def sources(self, position: int) -> tuple[int, ...]:
        """Numbers of the tensors that an operation reads, each once."""
        return self._sources[position]

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

    def met(self, positions: Iterable[int]) -> set[int]:
        """Numbers of the tensors that operations read or make."""
        return {t for p in positions for t in (*self.made(p), *self.sources(p))}

    def reads(self, positions: Sequence[int]) -> tuple[int, ...]:
        """Numbers of the tensors that operations read and none of them makes, as they come."""
        made = {number for position in positions for number in self.made(position)}
        found = dict.fromkeys(t for position in positions for t in self.sources(position))
        return tuple(number for number in found if number not in made)
