"""Which tensors are 0 past the ends of their dimensions.

Threads multiply whole tiles. Where both operands of a product are 0 past the end of the dimension
that is summed, what lies there adds nothing, and the multiply-adds need no predicate. Tensor cores
have no predicates: the TMA unit fills operands with zeros, and threads those that they bring.
"""

from __future__ import annotations

from warpsmith.ir.atoms import tensorized_by
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import IterDomain, MemoryType, ParallelType
from warpsmith.ir.exprs import Matmul, Move, Pointwise, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.targets.atoms import WGMMA


def zero_past_ends(fusion: Fusion) -> frozenset[TensorView]:
    """The operands of products, and of what they are copies of; of `wgmma`, those in shared memory.

    Of threads' products, operands that are copied by `bulk`, or that lie in global memory, and with
    them the other operand, are left as they are: that product needs predicates.
    """
    found: set[TensorView] = set()
    for operation in fusion.operations:
        if not isinstance(operation, Matmul):
            continue
        operands = [
            each
            for each in (operation.a, operation.b)
            if each.memory is MemoryType.shared or not _is_awaited(operation)
        ]
        by_warps = is_tensorized(operation.output)
        chains = [_chain(each, by_warps) for each in operands]
        if all(chains):
            found.update(*chains)
    return frozenset(found)


def brought_beside(fusion: Fusion) -> frozenset[TensorView]:
    """What a role brings by `cp.async` beside products of tensor cores, such as scales along k.

    Who computes with it does so for all of a tile, and stores what lies inside: a branch on what
    nobody wrote would be no fault of the result, but one that the simulator tells from no other.
    """
    products = [each for each in fusion.operations if isinstance(each, Matmul)]
    if not any(is_tensorized(each.output) for each in products):
        return frozenset()
    copied = (t for each in fusion.operations if copies(each) for t in each.outputs)
    return frozenset(t for t in copied if t.role and t.copied_by is LoadStoreOpType.cp_async)


def _chain(operand: TensorView, anybody: bool) -> tuple[TensorView, ...]:
    """The operand, what it is a copy of, and so on, up to what is loaded or computed; nothing where
    others than threads carry some copy, unless `anybody` may.
    """
    found: list[TensorView] = []
    tensor = operand
    while tensor.definition is not None:
        definition = tensor.definition
        if not anybody and tensor.copied_by is LoadStoreOpType.bulk:
            return ()
        if isinstance(definition, Matmul):
            return tuple(found) if anybody else ()
        found.append(tensor)
        if not copies(definition):
            break
        (tensor,) = tensor_inputs(definition)
    return tuple(found)


def ends_of_operands(fusion: Fusion) -> dict[TensorView, IterDomain]:
    """The operands that `wgmma` reads from registers, and what these are copies of, each with
    its dimension that is summed, past whose end it is 0.

    Sums of a product are what its own operands, filled with zeros, make of them.
    """
    found: dict[TensorView, IterDomain] = {}
    for operation in fusion.operations:
        if not isinstance(operation, Matmul) or not _is_awaited(operation):
            continue
        dimension = operation.axes[0].index(len(operation.output.root) - 1)
        tensor = operation.a
        while tensor.memory is MemoryType.local and isinstance(tensor.definition, Pointwise):
            found[tensor] = tensor.shape_axes[dimension]
            if not copies(tensor.definition):
                break
            (tensor,) = tensor_inputs(tensor.definition)
    return found


def _is_awaited(product: Matmul) -> bool:
    """Whether `wgmma` computes a product."""
    atom = tensorized_by(product, WGMMA) if is_tensorized(product.output) else None
    return atom is not None


def copies(operation: Operation) -> bool:
    """Whether what the operation gives is 0 wherever what it reads is, since it is the same."""
    if isinstance(operation, Move):
        return operation.kind == "tiles"
    return (
        isinstance(operation, Pointwise)
        and operation.op == "set"
        and bool(tensor_inputs(operation))
    )


def is_tensorized(output: TensorView) -> bool:
    """Whether the tensor is a product that tensor cores compute."""
    bound = any(axis.parallel is ParallelType.mma for axis in output.loop)
    return bound and isinstance(output.definition, Matmul)
