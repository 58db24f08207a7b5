"""A row's largest element, and its sum of exponentials of distances to it, in one pass over it.

Where no kernel keeps a row, or none needs it again, the maximum is one pass, the sum another one,
and what needs both a third. Both are the state of one rule, whose join scales the sum as the
maximum grows.
"""

from __future__ import annotations

from warpsmith.ir.domains import IterDomain
from warpsmith.ir.exprs import Pointwise, Reduction
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.graph import Graph
from warpsmith.ir.scalar import Const
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.carries import LOGSUMEXP
from warpsmith.ops.promotion import fresh_axes
from warpsmith.schedulers.exponentials import EXPONENTIALS, largest_taken_from


def in_one_pass(fusion: Fusion, *, alone: bool = False) -> bool:
    """Join each maximum with the sum of exponentials that needs it; whether there is any.

    Args:
        alone: only those of which nothing else needs the exponentials, or the distances.
    """
    found, graph = False, Graph.of(fusion)
    for operation in list(fusion.operations):
        if not isinstance(operation, Reduction):
            continue
        largest = _needed_by(operation)
        if largest is None or largest not in fusion.operations:
            continue
        if not alone or _needs_alone(graph, operation):
            _join(fusion, largest, operation)
            found = True
    return found


def _needs_alone(graph: Graph, total: Reduction) -> bool:
    """Whether the terms of a sum, and what they are the exponentials of, are for nothing else."""
    power = total.source
    assert isinstance(power.definition, Pointwise)
    distance = power.definition.inputs[0]
    assert isinstance(distance, TensorView)
    return not any(
        tensor.is_output or graph.live_readers(tensor) > 1 for tensor in (power, distance)
    )


def _needed_by(total: Reduction) -> Reduction | None:
    """The maximum of the elements from which the exponentials of a sum are taken."""
    power = total.source.definition
    if total.op != "sum" or not isinstance(power, Pointwise) or power.op not in EXPONENTIALS:
        return None
    largest = largest_taken_from(power.inputs[0])
    if largest is None:
        return None
    along = [[axis.is_reduction for axis in r.output.logical] for r in (largest, total)]
    return largest if along[0] == along[1] else None


def _join(fusion: Fusion, largest: Reduction, total: Reduction) -> None:
    """One reduction for both, in place of the first. Where the maximum is infinite, the sum is NaN,
    as that of exponentials of NaN is.
    """
    dtype = largest.output.dtype
    carry = LOGSUMEXP.typed((dtype,), (dtype, dtype))
    whole = total.output.logical
    joined = fusion.tensor(dtype, tuple(IterDomain(axis.extent, axis.kind) for axis in whole))
    sum_of = total.output
    sum_of.root = sum_of.logical = tuple(
        IterDomain(axis.extent, axis.kind) for axis in whole if not axis.is_reduction
    )
    sum_of.loop = list(sum_of.logical)
    none = fusion.tensor(dtype, fresh_axes(sum_of))
    both = Reduction(carry, (largest.source, Const(1.0, dtype)), (largest.output, joined))
    fusion.replace(largest, both)
    fusion.operations.remove(total)
    fusion.insert_after(both, Pointwise("add", (joined, none), sum_of))
    fusion.insert_after(both, Pointwise("sub", (largest.output, largest.output), none))
