"""Sums of all that rows were normalized to are sums of each row, and then of these.

A loss makes a softmax of each row, and one number of all rows. As one sum it comes behind the
kernels of the rows, and reads all of them again; a row's own sum is computed where the row is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.ir.domains import IterDomain, IterType
from warpsmith.ir.exprs import Move, Pointwise, Reduction, reduction, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap, Group
from warpsmith.ir.tensor import TensorView
from warpsmith.reach import reached
from warpsmith.schedulers.pointwise.applicability import self_mapped
from warpsmith.schedulers.reduction.applicability import pattern


def reduce_rows_first(fusion: Fusion) -> None:
    """Cut in two each sum, product or extreme over dimensions of which some were reduced before,
    the same wherever its elements depend on a reduction.
    """
    wide = [op for op in fusion.operations if isinstance(op, Reduction) and _is_wide(op)]
    found = [(op, before) for op in wide if (before := _needed(op.source))]
    if not found:
        return
    domains = DomainMap(fusion, through_inputs=True)
    if self_mapped(fusion, domains):
        return
    reduced = {op: pattern(domains, op.output)[1] for each in found for op in (each[0], *each[1])}
    for operation, before in found:  # dimensions of one that is cut are not those of the map
        rows, *others = {reduced[each] for each in before}
        if not others and rows < reduced[operation]:
            _cut(fusion, domains, operation, rows)


def _is_wide(operation: Reduction) -> bool:
    """Whether it is a sum, product or extreme over several dimensions."""
    return bool(operation.op) and sum(a.is_reduction for a in operation.output.root) > 1


def _needed(tensor: TensorView) -> set[Reduction]:
    """The reductions that a tensor is made of, element by element and by what rows share."""

    def before(tensor: TensorView) -> Sequence[TensorView]:
        made = tensor.definition
        return tensor_inputs(made) if isinstance(made, Pointwise | Move) else ()

    found = (each.definition for each in reached((tensor,), before))
    return {made for made in found if isinstance(made, Reduction)}


def _cut(fusion: Fusion, domains: DomainMap, total: Reduction, rows: frozenset[Group]) -> None:
    """A reduction of `rows`, and one of what these give, in place of one of both."""
    output = total.output
    inside = [axis.is_reduction and domains.group(axis) in rows for axis in output.root]
    axes = tuple(
        IterDomain(axis.extent, IterType.iteration if axis.is_reduction and not own else axis.kind)
        for axis, own in zip(output.root, inside, strict=True)
    )
    first = fusion.tensor(output.dtype, axes)
    fusion.insert_before(total, reduction(total.op, total.source, first))
    left = (axis for axis, own in zip(output.root, inside, strict=True) if not own)
    output.root = output.logical = tuple(IterDomain(axis.extent, axis.kind) for axis in left)
    output.loop = list(output.logical)
    fusion.replace(total, reduction(total.op, first, output))
