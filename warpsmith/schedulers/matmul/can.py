"""When the matmul scheduler applies."""

from __future__ import annotations

from warpsmith.ir import integers
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Matmul, Move, Operation, Pointwise
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.tensor import TensorView

OPERANDS = (DataType.BFloat16, DataType.Half)

BROADCASTS = ("broadcast", "broadcast_in_dim", "expand")


def refusal(fusion: Fusion) -> str:
    """Why the scheduler cannot take the fusion; empty when it can."""
    products = [op for op in fusion.operations if isinstance(op, Matmul)]
    if not products:
        return "it has no matrix product"
    if len(products) > 1:
        return f"it has {len(products)} matrix products"
    (product,) = products
    return _operands(product) or _result(fusion, product)


def _operands(product: Matmul) -> str:
    """Why tensor cores cannot read the operands."""
    if len(product.output.root) != 3:
        return "its product has batches"
    if product.a is product.b:
        return "its product has one tensor as both operands"
    for operand, axes in zip((product.a, product.b), product.axes, strict=True):
        fastest = operand.memory_order()[-1]
        if not operand.is_input:
            return f"{operand.name}, an operand of its product, is not an input"
        if operand.dtype not in OPERANDS:
            return f"{operand.name}, an operand of its product, is {operand.dtype.value}"
        if any(axis.is_broadcast for axis in operand.shape_axes):
            return f"{operand.name}, an operand of its product, is broadcast"
        if axes[fastest] != 2 or not operand.contiguity[fastest]:
            return f"{operand.name}, an operand of its product, is not contiguous along k"
    return ""


def _result(fusion: Fusion, product: Matmul) -> str:
    """Why what is computed from the product, and beside it, does not fit its loops."""
    outputs = list({id(output.value): output.value for output in fusion.outputs}.values())
    if len(outputs) != 1:
        return f"it has {len(outputs)} outputs"
    (output,) = outputs
    others = [op for op in fusion.operations if op is not product]
    if not all(map(_is_pointwise, others)):
        return "it has other operations than pointwise ones beside the product"
    if output.dtype.size != 2:
        return f"its output {output.name} is {output.dtype.value}, and stmatrix stores 16 bits"
    if output.memory_order() != (0, 1) or not output.contiguity[-1]:
        return f"its output {output.name} is not contiguous along n"
    if not isinstance(output.definition, Pointwise):
        return f"its output {output.name} is the product itself, in float"
    users = fusion.uses(product.a) + fusion.uses(product.b)
    if any(user is not product for user in users):
        return "an operand of its product is also read by another operation"
    domains = DomainMap(fusion)
    wanted = [domains.group(axis) for axis in product.output.shape_axes]
    if [domains.group(axis) for axis in output.shape_axes] != wanted:
        return f"its output {output.name} has other dimensions than the product"
    return _covered(domains, output, [op.outputs[0] for op in others])


def _is_pointwise(operation: Operation) -> bool:
    widens = isinstance(operation, Move) and operation.kind in BROADCASTS
    return widens or isinstance(operation, Pointwise)


def _covered(domains: DomainMap, output: TensorView, others: list[TensorView]) -> str:
    known = {domains.group(axis): integers.ZERO for axis in output.logical}
    derivation = Derivation(domains, known)
    for tensor in others:
        for axis in tensor.logical:
            if not axis.is_broadcast and not derivation.reaches(domains.group(axis)):
                return f"{tensor.name} has a dimension that its output lacks"
    return ""
