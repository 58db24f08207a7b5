"""What of a fusion neither needs its reductions nor is needed by them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from warpsmith.ir import integers
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.exprs import Reduction
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.program import Program
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
    """The tensors with a dimension that is reduced somewhere, or by these, or is made from one."""
    axes = {t: (*t.root, *t.logical) for t in fusion.computed}
    known = [axes[tensor] for tensor in reduced] or axes.values()
    gone = {domains.group(a) for group in known for a in group if a.is_reduction}
    found: set[TensorView] = set()
    for tensor, own in axes.items():
        concrete = {domains.group(a): integers.ZERO for a in own if not a.is_broadcast}
        derivation = Derivation(domains, concrete)
        if not gone.isdisjoint(concrete) or any(map(derivation.reaches, gone)):
            found.add(tensor)
    return found


def _follows(use: Operation, after: set[TensorView], found: Collection[TensorView]) -> bool:
    if isinstance(use, Reduction):
        return False
    return all(output in after or output in found for output in use.outputs)
