"""Which operations share a loop, and in which order loops follow each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from warpsmith.errors import ScheduleError
from warpsmith.ir.exprs import tensor_inputs
from warpsmith.ir.program import Program
from warpsmith.ir.tensor import Operation, TensorView

Siblings = Mapping[tuple[Operation, Operation], int]
"""By two operations, loops that they share though none reads the other."""

APART: Siblings = {}


def readers_together(program: Program) -> Siblings:
    """The loops that readers of tensors share whose dimensions the program says are the same.

    They share as many as each shares with what reads its own result.
    """
    found: dict[tuple[Operation, Operation], int] = {}
    for group in program.together:
        readers = [operation for tensor in group for operation in program.uses(tensor)]
        for a, b in pairwise(readers):
            found[a, b] = min(a.outputs[0].compute_at, b.outputs[0].compute_at)
    return found


def grouped(
    operations: Sequence[Operation], depth: int, siblings: Siblings = APART
) -> list[list[Operation]]:
    """Operations by the loop at `depth` that they share, in dependence order.

    Those that read a tensor inlined deeper share it, whoever makes the tensor.
    """
    producer = {out: op for op in operations for out in op.outputs}
    parent = {operation: operation for operation in operations}

    def find(key: Operation) -> Operation:
        while parent[key] is not key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    edges: list[tuple[Operation, Operation]] = []
    elsewhere: dict[TensorView, Operation] = {}
    for operation in operations:
        for source in tensor_inputs(operation):
            maker = producer.get(source)
            if maker is None:  # of another role, or an input
                if source.compute_at > depth:
                    parent[find(operation)] = find(elsewhere.setdefault(source, operation))
                continue
            if source.compute_at > depth:
                parent[find(operation)] = find(maker)
            else:
                edges.append((maker, operation))
    for (first, second), shared in siblings.items():
        if shared > depth and first in parent and second in parent:
            parent[find(second)] = find(first)
    nests: dict[Operation, list[Operation]] = {}
    for operation in operations:
        nests.setdefault(find(operation), []).append(operation)
    needs: dict[Operation, set[Operation]] = {key: set() for key in nests}
    for source_key, target_key in edges:
        if find(source_key) != find(target_key):
            needs[find(target_key)].add(find(source_key))
    return _in_order(nests, needs)


def shared_loops(
    operations: Sequence[Operation], a: Operation, b: Operation, siblings: Siblings
) -> int:
    """How many loops two of the operations share."""
    together, depth = list(operations), 0
    longest = min(len(a.outputs[0].loop), len(b.outputs[0].loop))
    while depth < longest:
        nest = next(n for n in grouped(together, depth, siblings) if any(op is a for op in n))
        if not any(op is b for op in nest):
            break
        together, depth = nest, depth + 1
    return depth


def _in_order(
    nests: dict[Operation, list[Operation]], needs: dict[Operation, set[Operation]]
) -> list[list[Operation]]:
    ordered: list[list[Operation]] = []
    left = dict(nests)
    while left:
        ready = next((key for key in left if not needs[key] & left.keys()), None)
        if ready is None:
            names = ", ".join(op.outputs[0].name for nest in left.values() for op in nest)
            raise ScheduleError(
                f"the loop nests of {names} need each other's results",
                code="WS0264",
                remedy="inline the tensor that both use less deep",
            )
        ordered.append(left.pop(ready))
    return ordered
