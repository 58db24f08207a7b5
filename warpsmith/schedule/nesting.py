"""The loop nests that compute-at positions make, while the positions are being chosen.

At a depth, a tensor with a position deeper than it is computed in the nest of its readers. Nests of
a depth must be such that they can be put in an order: none needs, over others, its own results.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.ir.disjoint import Disjoint
from warpsmith.ir.exprs import tensor_inputs
from warpsmith.ir.readers import readers_of
from warpsmith.ir.tensor import Operation

_Read = tuple[Operation, Operation]
"""An operation, and one that reads its result."""


class Nestings:
    """The nests of all depths, which operations join one after the other."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._operations = operations
        self._readers = readers_of(operations)
        self._depths: dict[int, _Nests] = {}

    def shared(self, operation: Operation, most: int) -> int:
        """How many outer loops, of `most`, an operation shares with its readers from now on: those
        that it shares already, and as many as leave the nests of every depth in some order.
        """
        readers = [op for output in operation.outputs for op in self._readers.get(output, ())]
        for depth in range(min(output.compute_at for output in operation.outputs), most):
            if depth not in self._depths:
                self._depths[depth] = _Nests(self._operations, depth)
            if not self._depths[depth].join(operation, readers):
                return depth
        return most


class _Nests:
    """The nests of one depth: operations that share its loop, and who reads out of each nest.

    They start from the tensors' compute-at positions. What joins takes time linear in its readers,
    and in the nests that can only come after theirs.
    """

    def __init__(self, operations: Sequence[Operation], depth: int) -> None:
        self._nests = Disjoint(operations)
        self._reads: dict[Operation, list[_Read]] = {operation: [] for operation in operations}
        apart: list[_Read] = []
        for reader in operations:
            for source in tensor_inputs(reader):
                maker = source.definition
                if maker is None or maker not in self._nests:
                    continue
                if source.compute_at > depth:
                    self._nests.join(reader, maker)
                else:
                    apart.append((maker, reader))
        for maker, reader in apart:
            self._reads[self._nests.find(maker)].append((maker, reader))

    def join(self, operation: Operation, readers: Sequence[Operation]) -> bool:
        """Put an operation into one nest with its readers, unless no order were left."""
        joined = {self._nests.find(each) for each in (operation, *readers)}
        reads = {nest: self._reads[nest] for nest in joined}
        own = self._nests.find(operation)
        reads[own] = [read for read in reads[own] if read[0] is not operation]
        if self._come_back(joined, [read for nest in joined for read in reads[nest]]):
            return False
        largest = max(joined, key=lambda nest: len(reads[nest]))
        for nest in joined - {largest}:
            self._nests.join(nest, largest)
            reads[largest] += reads[nest]
            del self._reads[nest]
        self._reads[largest] = reads[largest]
        return True

    def _come_back(self, nests: set[Operation], reads: list[_Read]) -> bool:
        """Whether some nest needs, over these reads of what `nests` make, one of `nests`."""
        pending, seen = reads, set(nests)
        while pending:
            _, reader = pending.pop()
            nest = self._nests.find(reader)
            if nest in nests:
                return True
            if nest not in seen:
                seen.add(nest)
                pending += self._reads[nest]
        return False
