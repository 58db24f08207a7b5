"""Loops of a tensor for what is computed before it."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.ir.domains import IterDomain, ParallelType
from warpsmith.ir.exprs import tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap, map_of
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule import propagate


def transform(reference: TensorView, sources: Sequence[TensorView], *, with_types: bool) -> None:
    """Give what is computed between the sources and the reference the reference's loops.

    Args:
        with_types: bind them as the reference's are; else those stay bound that were.
    """
    tensors = _between(sources, reference)
    if not tensors:
        return
    bound = [
        (tensor, axis, axis.parallel)
        for tensor in tensors
        for axis in tensor.loop
        if axis.parallel is not ParallelType.serial
    ]
    propagate.transform_like(reference, tensors)
    for tensor, axis, kind in bound:
        _bind_again(map_of(Fusion.of(tensor)), tensor, axis, kind)
    if with_types:
        propagate.parallelize_like(reference, -1, tensors)


def _between(sources: Sequence[TensorView], reference: TensorView) -> list[TensorView]:
    """What is computed from the sources, and is needed for the reference: neither of both."""
    found: dict[TensorView, None] = {}
    for operation in Fusion.of(reference).depends_on([reference]):
        if any(each in sources or each in found for each in tensor_inputs(operation)):
            found |= dict.fromkeys(each for each in operation.outputs if each not in sources)
    return [each for each in found if each is not reference]


def _bind_again(
    groups: DomainMap, tensor: TensorView, before: IterDomain, kind: ParallelType
) -> None:
    """Bind the loop of a tensor that is the same iterations as one that it had."""
    axis = before
    while not groups.knows(axis) and axis.clone_of is not None:
        axis = axis.clone_of
    for each in tensor.loop:
        if groups.knows(axis) and groups.same(each, axis):
            each.parallel = kind
