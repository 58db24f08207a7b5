"""Which tensors are 0 past the ends of their dimensions.

Threads multiply whole tiles. Where both operands of a product are 0 past the end of the dimension
that is summed, what lies there adds nothing, and the multiply-adds need no predicate. Tensor cores
have no predicates: the TMA unit fills operands with zeros, and threads those in their registers.
"""

from __future__ import annotations

from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import IterDomain, MemoryType, ParallelType
from warpsmith.ir.exprs import Matmul, Operation, Pointwise, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import TensorView


def zero_past_ends(fusion: Fusion) -> frozenset[TensorView]:
    """The operands of products that threads compute, and of what they are copies of.

    Operands that somebody else copies than threads, or that lie in global memory, and with them the
    other operand of their product, are left as they are: that product needs predicates.
    """
    found: set[TensorView] = set()
    for operation in fusion.operations:
        if isinstance(operation, Matmul) and not is_tensorized(operation.output):
            chains = _chain(operation.a), _chain(operation.b)
            if all(chains):
                found.update(*chains)
    return frozenset(found)


def _chain(operand: TensorView) -> tuple[TensorView, ...]:
    """The operand, what it is a copy of, and so on, up to what is loaded or computed; nothing where
    others than threads carry some copy.
    """
    found: list[TensorView] = []
    tensor = operand
    while tensor.definition is not None:
        definition = tensor.definition
        if tensor.copied_by is not LoadStoreOpType.set or isinstance(definition, Matmul):
            return ()
        found.append(tensor)
        if not copies(definition):
            break
        (tensor,) = tensor_inputs(definition)
    return tuple(found)


def ends_of_operands(fusion: Fusion) -> dict[TensorView, IterDomain]:
    """The operands that tensor cores read from registers, and what these are copies of, each with
    its dimension that is summed, past whose end it is 0.

    Sums of a product are what its own operands, filled with zeros, make of them.
    """
    found: dict[TensorView, IterDomain] = {}
    for operation in fusion.operations:
        if not isinstance(operation, Matmul) or not is_tensorized(operation.output):
            continue
        dimension = operation.axes[0].index(len(operation.output.root) - 1)
        tensor = operation.a
        while tensor.memory is MemoryType.local and isinstance(tensor.definition, Pointwise):
            found[tensor] = tensor.shape_axes[dimension]
            if not copies(tensor.definition):
                break
            (tensor,) = tensor_inputs(tensor.definition)
    return found


def copies(operation: Operation) -> bool:
    """Whether what the operation gives is 0 wherever what it reads is, since it is the same."""
    return (
        isinstance(operation, Pointwise)
        and operation.op == "set"
        and bool(tensor_inputs(operation))
    )


def is_tensorized(output: TensorView) -> bool:
    """Whether the tensor is a product that tensor cores compute."""
    bound = any(axis.parallel is ParallelType.mma for axis in output.loop)
    return bound and isinstance(output.definition, Matmul)
