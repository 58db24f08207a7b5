"""What crosses memory between kernels, and in which form.

A tensor that another kernel needs is stored in its cheapest form: before it is broadcast, padded
or made wider. What a few operations on each element compute of inputs alone, or of results, which
are in memory in any case, is not stored; the kernel that needs it computes it again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field

from warpsmith.ir.exprs import Matmul, Move, Pointwise, Reduction, Scan
from warpsmith.ir.graph import Graph
from warpsmith.ir.reads import Read
from warpsmith.ir.tensor import Operation
from warpsmith.values import dataclass

MOST_REPEATED = 16
"""Operations that are computed again rather than stored."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """The stored forms of tensors that other kernels than their own read.

    Attributes:
        kept: numbers of those that are stored though they are cheap.
        forms: by number of those that are stored in fewer bytes than they are computed in, that of
            what is stored.
    """

    graph: Graph
    kept: frozenset[int] = frozenset()
    forms: Mapping[int, int] = field(default_factory=dict)
    _weight: dict[int, int | None] = field(default_factory=dict)

    def stored(self, number: int) -> frozenset[int]:
        """The tensors that must be in memory for another kernel to have this one."""
        graph, form = self.graph, number
        while True:
            position = graph.maker.get(number)
            if position is None:
                return frozenset()
            if number in graph.results or number in self.kept:
                return frozenset((number,))
            if self._repeated(number) is not None:
                return self._results_of(number)
            operation = graph.operations[position]
            if self._is_operand(number):
                return frozenset((number,))
            if isinstance(operation, Read) and operation.kind == "pad":
                return self.of_all(graph.sources(position))
            enlarged = enlarges(operation)
            if not enlarged and not isinstance(operation, Move):
                return frozenset((form,))
            (number,) = graph.sources(position)
            form = number if enlarged or number in self.forms else form

    def _is_operand(self, number: int) -> bool:
        """Whether it is a value in the shape in which products read it, which has to be there."""
        graph = self.graph
        moved = graph.operations[graph.maker[number]]
        if not (isinstance(moved, Move) and moved.kind == "reshape"):
            return False
        readers = (graph.operations[p] for p in graph.readers.get(number, ()) if p in graph.live)
        return any(isinstance(reader, Matmul) for reader in readers)

    def is_cheap(self, number: int) -> bool:
        """Whether a few operations compute the tensor of inputs, or of results."""
        return number not in self.kept and self._repeated(number) is not None

    def of_all(self, numbers: Collection[int]) -> frozenset[int]:
        """The same of several tensors."""
        return frozenset(t for number in numbers for t in self.stored(number))

    def _repeated(self, number: int) -> int | None:
        """How many operations compute the tensor of inputs or results; None where it is not to be
        repeated.
        """
        if number in self._weight:
            return self._weight[number]
        pending = [number]
        while pending:
            tensor = pending[-1]
            position = self.graph.maker.get(tensor)
            given = position is None or tensor in self.kept
            sources = () if position is None or given else self.graph.sources(position)
            sources = tuple(t for t in sources if not self._is_result(t))
            unknown = [t for t in sources if t not in self._weight]
            if unknown and tensor not in self._weight:
                pending += unknown
                continue
            pending.pop()
            self._weight[tensor] = 0 if given else self._sum(position, sources)
        return self._weight[number]

    def _results_of(self, number: int) -> frozenset[int]:
        """The results of which a few operations compute the tensor."""
        found: set[int] = set()
        pending = [number]
        while pending:
            position = self.graph.maker.get(pending.pop())
            for source in () if position is None else self.graph.sources(position):
                if source in self.kept or self._is_result(source):
                    found.add(source)
                else:
                    pending.append(source)
        return frozenset(found)

    def _is_result(self, number: int) -> bool:
        return self.forms.get(number, number) in self.graph.results or number in self.graph.results

    def _sum(self, position: int | None, sources: Collection[int]) -> int | None:
        assert position is not None, "inputs are given"
        if isinstance(self.graph.operations[position], Reduction | Scan | Matmul):
            return None
        total = 1
        for source in sources:
            weight = self._weight[source]
            if weight is None:
                return None
            total += weight
        return total if total <= MOST_REPEATED else None


def enlarges(operation: Operation) -> bool:
    """Whether the result takes more bytes than the one tensor that it is made of."""
    if isinstance(operation, Move):
        return operation.kind in ("broadcast", "broadcast_in_dim", "expand")
    if isinstance(operation, Pointwise) and operation.op == "cast" and len(operation.inputs) == 1:
        (source,) = operation.inputs
        return source.dtype.size < operation.output.dtype.size
    return False
