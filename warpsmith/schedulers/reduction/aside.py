"""What of a fusion neither needs its reductions nor is needed by them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from warpsmith.ir import integers
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.exprs import Reduction
from warpsmith.ir.mapping import DomainMap, Group
from warpsmith.ir.program import Program
from warpsmith.ir.scalar import Const
from warpsmith.ir.tensor import Operation, TensorView


def only_after(fusion: Program, domains: DomainMap, after: set[TensorView]) -> list[TensorView]:
    """Tensors that depend on no reduction, lack what is reduced, and feed nothing before one; and
    those that do and are stored, too.
    """
    walks = walks_reduced(fusion, domains)
    found: dict[TensorView, None] = {}
    for operation in reversed(fusion.operations):
        if isinstance(operation, Reduction):
            continue
        for tensor in operation.outputs:
            alone = tensor not in after and tensor not in walks
            uses = () if tensor.is_output else fusion.uses(tensor)
            if alone and all(_follows(use, after, found) for use in uses):
                found[tensor] = None
    return list(found)


def walks_reduced(
    fusion: Program, domains: DomainMap, reduced: Iterable[TensorView] = ()
) -> set[TensorView]:
    """The tensors with a dimension that is reduced somewhere, or by these, or is made from one, or
    is a part of one: rows of what is reduced as one dimension.
    """
    axes = {t: [a for a in (*t.root, *t.logical) if not a.is_broadcast] for t in fusion.computed}
    groups = {t: dict.fromkeys(map(domains.group, own), integers.ZERO) for t, own in axes.items()}
    every = {group for own in groups.values() for group in own}
    gone: set[Group] = set()
    parts: set[Group] = set()
    for tensor in reduced or axes:
        mine = {domains.group(a) for a in axes[tensor] if a.is_reduction}
        if mine - gone:
            within = Derivation(domains, groups[tensor])
            reached = filter(within.reaches, every)
            parts |= {group for group in reached if not mine.isdisjoint(within.needs(group))}
        gone |= mine

    def walks(own: dict[Group, Const]) -> bool:
        made = Derivation(domains, own)
        return not parts.isdisjoint(own) or any(map(made.reaches, gone))

    return {tensor for tensor, own in groups.items() if walks(own)}


def _follows(use: Operation, after: set[TensorView], found: Collection[TensorView]) -> bool:
    if isinstance(use, Reduction):
        return False
    return all(output in after or output in found for output in use.outputs)
