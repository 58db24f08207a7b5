"""Keep what stands before a reduction apart from what stands after it.

The two have different loops, so one value in registers cannot serve both. What both need is
computed twice: after the reduction it is small, since no reduced dimension is left.
"""

from __future__ import annotations

from warpsmith.ir.clone import Clones, Known, walked_together
from warpsmith.ir.exprs import Reduction, replace_tensor, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap, map_of
from warpsmith.ir.program import Program
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.reduction.applicability import after_reduction
from warpsmith.schedulers.reduction.aside import only_after, walks_reduced


def recompute_after(fusion: Fusion, caches: tuple[Cached, ...]) -> tuple[Cached, ...]:
    """Give what follows the reductions its own copies of what is needed before them too.

    So with what no reduction needs, but both read the copies of inputs, which come before either.
    Returns the caches with those that the copies read.
    """
    domains, after = map_of(fusion), after_reduction(fusion)
    before = _needed_before(fusion, domains, after)
    aside = set(only_after(fusion, domains, after))
    clones: dict[TensorView, TensorView] = {}
    memory = {cached.register: cached.memory for cached in caches if cached.load}
    beside = {cached.register: cached.register for cached in caches if cached.load}
    made: list[Cached] = []
    for operation in list(fusion.operations):
        output = operation.outputs[0]
        if isinstance(operation, Reduction) or output in before:
            continue
        own = beside if output in aside else clones
        reader: Operation = operation
        for source in tensor_inputs(operation):
            if source in before:
                clone = clone_of(fusion, source, own, together=True)
                reader, old = replace_tensor(reader, source, clone), reader
                fusion.replace(old, reader)
    for register, clone in clones.items():
        if register in memory:
            tensor = memory[register]
            made.append(Cached(tensor, clone, True, f"{tensor.name} after the reduction"))
    return (*caches, *made)


def _needed_before(fusion: Program, domains: DomainMap, after: set[TensorView]) -> set[TensorView]:
    """Tensors, not inputs, that a reduction needs, or an output that walks what is reduced."""
    walks = walks_reduced(fusion, domains) - after
    wanted = [output.value for output in fusion.outputs if output.value in walks]
    for operation in fusion.operations:
        if isinstance(operation, Reduction):
            wanted += operation.outputs
    needed = fusion.depends_on(wanted)
    return {out for op in needed for out in op.outputs if out not in after}


def clone_of(
    fusion: Fusion,
    tensor: TensorView,
    clones: dict[TensorView, TensorView],
    *,
    together: bool = False,
) -> TensorView:
    """A second tensor of the same value, computed again: from the inputs, or from `clones`.

    Args:
        clones: by tensor, the one to read in its place; those that are made are added.
        together: it reads them in the loops of the first.
    """
    definition = tensor.definition
    if definition is None:
        return tensor
    if tensor not in clones:
        known: Known = {fusion: fusion, **walked_together(definition, through_inputs=together)}
        for source in tensor_inputs(definition):
            known[source] = clone_of(fusion, source, clones, together=together)
        operation = Clones(known).operation(definition)
        for output in operation.outputs:
            output.number = fusion.register(output)
        fusion.insert_after(definition, operation)
        clones.update(zip(definition.outputs, operation.outputs, strict=True))
    return clones[tensor]
