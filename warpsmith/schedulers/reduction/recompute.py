"""Keep what stands before a reduction apart from what stands after it.

The two have different loops, so one value in registers cannot serve both. What both need is
computed twice: after the reduction it is small, since no reduced dimension is left.
"""

from __future__ import annotations

from warpsmith.ir import integers
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.exprs import Operation, Reduction, Welford, replace_tensor, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.tensor import TensorView
from warpsmith.ir.twins import Twins
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.reduction.can import after_reduction


def recompute_after(fusion: Fusion, caches: tuple[Cached, ...]) -> tuple[Cached, ...]:
    """Give what follows the reductions its own copies of what is needed before them too.

    Returns the caches with those that the copies read.
    """
    after = after_reduction(fusion)
    before = _needed_before(fusion, after)
    memory = {id(cached.register): cached.memory for cached in caches if cached.load}
    twins: dict[int, TensorView] = {}
    made: list[Cached] = []
    for operation in list(fusion.operations):
        if isinstance(operation, Reduction | Welford) or id(operation.outputs[0]) not in after:
            continue
        reader: Operation = operation
        for source in tensor_inputs(operation):
            if id(source) in before:
                twin = twin_of(fusion, source, twins)
                reader, old = replace_tensor(reader, source, twin), reader
                fusion.replace(old, reader)
    for register, twin in twins.items():
        if register in memory:
            tensor = memory[register]
            made.append(Cached(tensor, twin, True, f"{tensor.name} after the reduction"))
    return (*caches, *made)


def _needed_before(fusion: Fusion, after: set[int]) -> set[int]:
    """Tensors, not inputs, that a reduction needs, or an output that walks what is reduced."""
    walks = _walks_reduced(fusion) - after
    wanted = [output.value for output in fusion.outputs if id(output.value) in walks]
    for operation in fusion.operations:
        if isinstance(operation, Reduction | Welford):
            wanted += operation.outputs
    needed = fusion.depends_on(wanted)
    return {id(out) for op in needed for out in op.outputs if id(out) not in after}


def twin_of(fusion: Fusion, tensor: TensorView, twins: dict[int, TensorView]) -> TensorView:
    """A second tensor of the same value, computed from the inputs again."""
    definition = tensor.definition
    if definition is None:
        return tensor
    found = twins.get(id(tensor))
    if found is None:
        known: dict[int, object] = {id(fusion): fusion}
        for source in tensor_inputs(definition):
            known[id(source)] = twin_of(fusion, source, twins)
        operation = Twins(known).operation(definition)
        found = operation.outputs[0]
        found.number = fusion.register(found)
        fusion.insert_after(definition, operation)
        twins[id(tensor)] = found
    return found


def only_after(fusion: Fusion, after: set[int]) -> list[TensorView]:
    """Tensors that depend on no reduction, lack what is reduced, and feed nothing before one."""
    walks = _walks_reduced(fusion)
    found: dict[int, TensorView] = {}
    for operation in reversed(fusion.operations):
        if isinstance(operation, Reduction | Welford):
            continue
        for tensor in operation.outputs:
            alone = id(tensor) not in after and id(tensor) not in walks
            if alone and all(_follows(use, after, found) for use in fusion.uses(tensor)):
                found[id(tensor)] = tensor
    return list(found.values())


def _walks_reduced(fusion: Fusion) -> set[int]:
    """Identities of the tensors with a dimension that is reduced somewhere, or is made from one."""
    domains = DomainMap(fusion)
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
