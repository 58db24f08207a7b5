"""What of a fusion neither needs its reductions nor is needed by them."""

from __future__ import annotations

from warpsmith.ir import integers
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.exprs import Operation, Reduction, Welford
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.tensor import TensorView


def only_after(fusion: Fusion, domains: DomainMap, after: set[int]) -> list[TensorView]:
    """Tensors that depend on no reduction, lack what is reduced, and feed nothing before one."""
    walks = walks_reduced(fusion, domains)
    found: dict[int, TensorView] = {}
    for operation in reversed(fusion.operations):
        if isinstance(operation, Reduction | Welford):
            continue
        for tensor in operation.outputs:
            alone = id(tensor) not in after and id(tensor) not in walks
            if alone and all(_follows(use, after, found) for use in fusion.uses(tensor)):
                found[id(tensor)] = tensor
    return list(found.values())


def walks_reduced(fusion: Fusion, domains: DomainMap) -> set[int]:
    """Identities of the tensors with a dimension that is reduced somewhere, or is made from one."""
    axes = {id(t): (*t.root, *t.logical) for t in fusion.computed}
    gone = {domains.group(a) for group in axes.values() for a in group if a.is_reduction}
    found: set[int] = set()
    for key, own in axes.items():
        concrete = {domains.group(a): integers.ZERO for a in own if not a.is_broadcast}
        derivation = Derivation(domains, concrete)
        if not gone.isdisjoint(concrete) or any(map(derivation.reaches, gone)):
            found.add(key)
    return found


def _follows(use: Operation, after: set[int], found: dict[int, TensorView]) -> bool:
    if isinstance(use, Reduction | Welford):
        return False
    return all(id(output) in after or id(output) in found for output in use.outputs)
