"""Compute tensors inside their consumers' loops.

A tensor with compute-at position `p` is computed inside the first `p` loops of its consumers. The
position is legal when those loops are the same iterations for all of them, none is a reduction of
the tensor's own or a vectorized access, and the loop nests that follow can be put in an order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from warpsmith.errors import ScheduleError
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.exprs import Scan
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap, map_of
from warpsmith.ir.readers import Readers, readers_of
from warpsmith.ir.scans import opened_loops
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.schedule.nesting import Nestings

NOT_SHARED = (ParallelType.vectorize, ParallelType.tma, ParallelType.mma)


def inline_most(
    fusion: Fusion,
    selected_tensors: Collection[TensorView] = (),
    limits: Mapping[TensorView, int] | None = None,
) -> None:
    """Move every tensor (or every selected one) as far into its consumers' loops as is legal.

    Args:
        limits: positions that tensors go to at most. Tensors that read each other, some with such
            a limit, have to move in one call: one that stays outside keeps all that it reads out.
    """
    _inline(fusion, selected_tensors, limits or {})


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
    fusion = Fusion.of(reference)
    reached = _inline(fusion, selected_tensors, dict.fromkeys(fusion.tensors, limit))
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
    fusion: Fusion, selected: Collection[TensorView], limits: Mapping[TensorView, int]
) -> dict[TensorView, int]:
    """Set compute-at positions, consumers first; returns them by tensor."""
    domains = map_of(fusion)
    readers = readers_of(fusion.operations)
    chosen = set(selected)
    wanted = [op for op in fusion.operations if not chosen or not chosen.isdisjoint(op.outputs)]
    most: dict[Operation, int] = {}
    for operation in wanted:
        outputs = operation.outputs
        legal = [_legal_position(domains, readers, output) for output in outputs]
        most[operation] = min(legal + [limits[each] for each in outputs if each in limits])
        for output in outputs:
            output.compute_at = min(output.compute_at, most[operation])
    nestings = Nestings(fusion.operations)
    reached: dict[TensorView, int] = {}
    for operation in reversed(wanted):
        position = nestings.shared(operation, most[operation])
        for output in operation.outputs:
            output.compute_at = reached[output] = position
    return reached


def _legal_position(domains: DomainMap, readers: Readers, tensor: TensorView) -> int:
    """The deepest position that the loops themselves allow; 0 for a tensor without consumers.

    For one of several results of a reduction, without consumers, its siblings decide.
    """
    reading = readers.get(tensor)
    if not reading:
        lone = tensor.definition is None or len(tensor.definition.outputs) == 1
        return 0 if lone or tensor.is_output else len(tensor.loop)
    return min(_shared_loops(domains, tensor, operation) for operation in reading)


def _shared_loops(domains: DomainMap, tensor: TensorView, reader: Operation) -> int:
    nest = reader.outputs[0].loop
    scans = (op for op in (tensor.definition, reader) if isinstance(op, Scan))
    most = min((opened_loops(scan) for scan in scans), default=len(nest))
    for position, (axis, other) in enumerate(zip(tensor.loop, nest[:most], strict=False)):
        if axis.is_reduction or not domains.same(axis, other):
            return position
        if axis.parallel in NOT_SHARED or other.parallel in NOT_SHARED:
            return position
    return min(len(tensor.loop), len(nest), most)
