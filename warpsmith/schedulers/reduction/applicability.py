"""When the reduction scheduler applies."""

from __future__ import annotations

from warpsmith.ir import integers
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.exprs import Matmul, Reduction, tensor_inputs
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.program import Program
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.schedulers.pointwise.applicability import beyond, cached_map, self_mapped
from warpsmith.schedulers.reduction.aside import only_after


def reductions(fusion: Program) -> tuple[TensorView, ...]:
    """The first result of every reduction, in order."""
    return tuple(op.outputs[0] for op in fusion.operations if isinstance(op, Reduction))


def refusal(fusion: Program) -> str:
    """Why the scheduler cannot take the fusion; empty when it can."""
    if reason := does_not_reduce(fusion):
        return reason
    domains, first = cached_map(fusion), reductions(fusion)[0]
    return (
        differ(fusion, domains)
        or self_mapped(fusion, domains)
        or _needs_result_again(fusion, domains, first)
        or uncovered(fusion, domains, first)
    )


def does_not_reduce(fusion: Program) -> str:
    """Why a fusion is not one of reductions; empty when it is."""
    if any(isinstance(op, Matmul) for op in fusion.operations):
        return "it has a matrix product"
    return "" if reductions(fusion) else "it does not reduce"


def differ(fusion: Program, domains: DomainMap) -> str:
    """Names two reductions of different dimensions, if there are such."""
    first, *others = reductions(fusion)
    for other in others:
        if pattern(domains, other) != pattern(domains, first):
            return f"{first.name} and {other.name} reduce different dimensions"
    return ""


def pattern(domains: DomainMap, tensor: TensorView) -> tuple[frozenset[int], frozenset[int]]:
    """Groups that a reduction keeps, and groups that it reduces."""
    kept = (a for a in tensor.logical if not a.is_reduction and not a.is_broadcast)
    gone = (a for a in tensor.logical if a.is_reduction)
    return frozenset(map(domains.group, kept)), frozenset(map(domains.group, gone))


def after_reduction(fusion: Program) -> set[TensorView]:
    """The tensors that depend on a reduction, the reductions among them."""
    return fusion.after(_is_reduction)


def _needs_result_again(fusion: Program, domains: DomainMap, first: TensorView) -> str:
    """A result that is combined with the reduced dimensions again needs a second pass; and what no
    reduction needs has loops like a result's.
    """
    kept, gone = pattern(domains, first)
    results = Derivation(domains, dict.fromkeys(kept, integers.ZERO))
    after = after_reduction(fusion)
    aside = set(only_after(fusion, domains, after))
    for operation in fusion.operations:
        for output in operation.outputs:
            if _is_reduction(operation) or output not in after | aside:
                continue
            axes = [axis for axis in (*output.root, *output.logical) if not axis.is_broadcast]
            own = Derivation(domains, {domains.group(axis): integers.ZERO for axis in axes})
            again = output in after and any(map(own.reaches, gone))  # also by a reshape
            if not again and all(results.reaches(domains.group(axis)) for axis in axes):
                continue
            if output in after:
                return f"{output.name} combines a reduction's result with what was reduced"
            return f"{output.name} has a dimension that {first.name} does not keep"
    for operation in fusion.operations:
        if _is_reduction(operation) and any(t in after for t in tensor_inputs(operation)):
            return f"{operation.outputs[0].name} reduces what was reduced before"
    return ""


def _is_reduction(operation: Operation) -> bool:
    return isinstance(operation, Reduction)


def uncovered(fusion: Program, domains: DomainMap, first: TensorView) -> str:
    """Every tensor must be computable from the loops of the first reduction."""
    tensor = beyond(fusion.computed, domains, first.logical)
    if tensor is None:
        return ""
    return f"{tensor.name} has a dimension that {first.name} neither keeps nor reduces"
