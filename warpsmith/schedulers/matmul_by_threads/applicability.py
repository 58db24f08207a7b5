"""When threads can multiply: always, unless something beside the product needs other loops."""

from __future__ import annotations

from collections.abc import Iterable

from warpsmith.ir import integers
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.exprs import Full, Iota, Matmul, Move, Pointwise
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.program import Program
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.schedulers.pointwise.applicability import cached_map, self_mapped


def refusal(fusion: Program) -> str:
    """Why the scheduler cannot take the fusion; empty when it can."""
    products = [op for op in fusion.operations if isinstance(op, Matmul)]
    if not products:
        return "it has no matrix product"
    if len(products) > 1:
        return f"it has {len(products)} matrix products"
    (product,) = products
    if product.a is product.b:
        return "its product has one tensor as both operands"
    if product.ends is not None and not product.ends.is_input:
        return f"{product.ends.name}, which says where its groups end, is not an input"
    for operation in fusion.operations:
        if not isinstance(operation, Matmul | Pointwise | Move | Full | Iota):
            return f"{operation.outputs[0].name} is no pointwise work beside the product"
    domains = cached_map(fusion)
    return (
        _outputs(fusion, product)
        or self_mapped(fusion, domains)
        or _covered(fusion, domains, product)
    )


def after_product(fusion: Program, product: Matmul) -> set[TensorView]:
    """The tensors that depend on the product, itself among them."""
    return fusion.after(lambda operation: operation is product)


def _outputs(fusion: Program, product: Matmul) -> str:
    after = after_product(fusion, product)
    for output in fusion.outputs:
        if output.value not in after:
            return f"its output {output.value.name} does not depend on the product"
    return ""


def _covered(fusion: Program, domains: DomainMap, product: Matmul) -> str:
    """What leads to the operands must follow from all of the product's loops, what else there is
    from those that are not summed.
    """
    before = set(fusion.depends_on([product.a, product.b]))
    inner = _known(domains, product.output.root)
    outer = _known(domains, product.output.shape_axes)
    for operation in fusion.operations:
        leads = operation in before
        missing = _missing(domains, operation, inner if leads else outer)
        if missing and operation is not product:
            what = "" if leads else "kept "
            return f"{missing} has a dimension that is no {what}one of the product"
    return ""


def _known(domains: DomainMap, axes: Iterable[IterDomain]) -> Derivation:
    kept = (axis for axis in axes if not axis.is_broadcast)
    return Derivation(domains, {domains.group(axis): integers.ZERO for axis in kept})


def _missing(domains: DomainMap, operation: Operation, known: Derivation) -> str:
    """Name of the operation's result, if it has a dimension that is not known."""
    for tensor in operation.outputs:
        for axis in (*tensor.root, *tensor.logical):
            if not axis.is_broadcast and not known.reaches(domains.group(axis)):
                return tensor.name
    return ""
