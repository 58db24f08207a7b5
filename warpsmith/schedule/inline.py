"""Compute tensors inside their consumers' loops.

A tensor with compute-at position `p` is computed inside the first `p` loops of its consumers. The
position is legal when those loops are the same iterations for all of them, none is a reduction of
the tensor's own or a vectorized access, and the loop nests that follow can be put in an order.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from warpsmith.errors import ScheduleError
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.exprs import Operation, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.tensor import TensorView

Read = tuple[Operation, Operation, int]
"""(maker, reader, compute-at position) of a tensor."""

NOT_SHARED = (ParallelType.vectorize, ParallelType.tma, ParallelType.mma)


def inline_most(fusion: Fusion, selected_tensors: Collection[TensorView] = ()) -> None:
    """Move every tensor (or every selected one) as far into its consumers' loops as is legal."""
    _inline(fusion, selected_tensors, limit=None)


def inline_at(
    reference: TensorView,
    pos: int = -1,
    best_effort: bool = False,
    selected_tensors: Collection[TensorView] = (),
) -> None:
    """Move tensors into the first `pos` loops of the reference, or of loops equal to them.

    Without `best_effort`, a tensor among `selected_tensors` that cannot go so far is refused.
    """
    length = len(reference.loop)
    limit = pos + length + 1 if pos < 0 else pos
    if not 0 <= limit <= length:
        raise ScheduleError(
            f"inline position {pos} is outside the {length} loops of {reference.name}",
            code="WS0251",
            remedy=f"use 0 to {length}",
        )
    reached = _inline(reference.fusion, selected_tensors, limit=limit)
    if best_effort:
        return
    for tensor in selected_tensors:
        if reached.get(tensor, limit) < min(limit, len(tensor.loop)):
            raise ScheduleError(
                f"{tensor.name} can be inlined at {reached[tensor]} at most, not at {limit}",
                code="WS0252",
                remedy="use best_effort=True or make its loops equal to its consumers'",
            )


def _inline(
    fusion: Fusion, selected: Collection[TensorView], limit: int | None
) -> dict[TensorView, int]:
    """Set compute-at positions, consumers first; returns them by tensor."""
    domains = DomainMap(fusion)
    chosen = set(selected)
    reached: dict[TensorView, int] = {}
    for operation in reversed(fusion.operations):
        outputs = operation.outputs
        if chosen and not any(output in chosen for output in outputs):
            continue
        position = min(legal_position(fusion, domains, output) for output in outputs)
        if limit is not None:
            position = min(position, limit)
        _settle(fusion, operation, position)
        reached.update({output: output.compute_at for output in outputs})
    return reached


def legal_position(fusion: Fusion, domains: DomainMap, tensor: TensorView) -> int:
    """The deepest position that the loops themselves allow; 0 for a tensor without consumers.

    For one result of a Welford reduction without consumers its siblings decide.
    """
    consumers = fusion.consumers(tensor)
    if not consumers:
        lone = tensor.definition is None or len(tensor.definition.outputs) == 1
        return 0 if lone or tensor.is_output else len(tensor.loop)
    return min(_shared_loops(domains, tensor, consumer) for consumer in consumers)


def _shared_loops(domains: DomainMap, tensor: TensorView, consumer: TensorView) -> int:
    definition = consumer.definition
    assert definition is not None
    nest = definition.outputs[0].loop
    for position, (axis, other) in enumerate(zip(tensor.loop, nest, strict=False)):
        if axis.is_reduction or not domains.same(axis, other):
            return position
        if axis.parallel in NOT_SHARED or other.parallel in NOT_SHARED:
            return position
    return min(len(tensor.loop), len(nest))


def _settle(fusion: Fusion, operation: Operation, position: int) -> None:
    """The deepest position up to `position` for which the loop nests can be ordered."""
    branching = sum(len(fusion.uses(output)) for output in operation.outputs) > 1
    while True:
        for output in operation.outputs:
            output.compute_at = position
        if position == 0 or not branching or nests_can_be_ordered(fusion):
            return
        position -= 1


def nests_can_be_ordered(fusion: Fusion) -> bool:
    """Whether, at every depth, the operations that share a loop form nests without a cycle."""
    deepest = max((t.compute_at for t in fusion.tensors), default=0)
    reads = _reads(fusion)
    return all(_acyclic_at(fusion, reads, depth) for depth in range(deepest))


def _reads(fusion: Fusion) -> list[Read]:
    """Every tensor that is made, with each operation that reads it."""
    made = {out: op for op in fusion.operations for out in op.outputs}
    found: list[Read] = []
    for operation in fusion.operations:
        for source in tensor_inputs(operation):
            if source in made:
                found.append((made[source], operation, source.compute_at))
    return found


def _acyclic_at(fusion: Fusion, reads: Sequence[Read], depth: int) -> bool:
    parent = {op: op for op in fusion.operations}

    def find(key: Operation) -> Operation:
        while parent[key] is not key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    edges: list[tuple[Operation, Operation]] = []
    for maker, reader, position in reads:
        if position > depth:
            parent[find(reader)] = find(maker)
        else:
            edges.append((maker, reader))
    after: dict[Operation, set[Operation]] = {}
    for source, target in edges:
        if find(source) == find(target):
            return False
        after.setdefault(find(source), set()).add(find(target))
    return not _has_cycle(after)


def _has_cycle(after: dict[Operation, set[Operation]]) -> bool:
    state: dict[Operation, int] = {}

    def visit(node: Operation) -> bool:
        state[node] = 1
        for following in after.get(node, ()):
            if state.get(following) == 1 or (following not in state and visit(following)):
                return True
        state[node] = 2
        return False

    return any(visit(node) for node in list(after) if node not in state)
