"""What leads to each operand of a product, apart from the other one and from what follows.

Each of the three has loops of its own, so one value in registers cannot serve two of them.
"""

from __future__ import annotations

from warpsmith.ir.exprs import Matmul, replace_tensor, tensor_inputs, with_values
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.program import Program
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.ops.liveness import remove_dead
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.reduction.recompute import clone_of


def keep_apart(fusion: Fusion, caches: tuple[Cached, ...]) -> tuple[Cached, ...]:
    """Give the second operand, and what stands beside the product, copies of their own of what the
    first operand, or either, is computed from; what nothing reads any more goes.

    Returns the caches that are left, with those that the copies read.
    """
    (product,) = (op for op in fusion.operations if isinstance(op, Matmul))
    first = computed_for(fusion, product.a)
    of_second: dict[TensorView, TensorView] = {}
    if any(tensor in first for tensor in computed_for(fusion, product.b)):
        second = clone_of(fusion, product.b, of_second)
        kept = with_values(product, (product.a, second), product.outputs)
        assert isinstance(kept, Matmul)
        fusion.replace(product, kept)
        product = kept
    leading = {**first, **computed_for(fusion, product.b)}
    beside: dict[TensorView, TensorView] = {}
    for operation in list(fusion.operations):
        if operation is product or any(out in leading for out in operation.outputs):
            continue
        reader: Operation = operation
        for source in tensor_inputs(operation):
            if source in leading:
                clone = clone_of(fusion, source, beside)
                reader, old = replace_tensor(reader, source, clone), reader
                fusion.replace(old, reader)
    memory = {cached.register: cached.memory for cached in caches if cached.load}
    made = [
        Cached(memory[register], clone, True, f"{memory[register].name} for {whom}")
        for clones, whom in ((of_second, "the second operand"), (beside, "the result"))
        for register, clone in clones.items()
        if register in memory
    ]
    remove_dead(fusion)
    left = set(fusion.computed)
    return tuple(cached for cached in (*caches, *made) if cached.copy in left)


def computed_for(fusion: Program, operand: TensorView) -> dict[TensorView, None]:
    """Every tensor that is computed for an operand, it among them, in order, as keys."""
    return dict.fromkeys(out for op in fusion.depends_on([operand]) for out in op.outputs)
