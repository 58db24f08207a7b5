"""When rows, or columns, may stay in registers."""

from __future__ import annotations

from collections.abc import Collection

from warpsmith.ir import integers
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.exprs import Reduction, tensor_inputs
from warpsmith.ir.mapping import DomainMap, Group, map_of
from warpsmith.ir.program import Program
from warpsmith.ir.tensor import TensorView
from warpsmith.schedulers.pointwise.applicability import cached_map, self_mapped
from warpsmith.schedulers.reduction.applicability import (
    after_reduction,
    differ,
    does_not_reduce,
    pattern,
    reductions,
    uncovered,
)


def refusal(fusion: Program) -> str:
    """Why the scheduler cannot take the fusion; empty when it can.

    A row may lie in several pieces, as a channel of `[N, C, H, W]` does. Whether it fits in
    registers depends on its length, so it is asked of a call: `strategy.unsupported_sizes`.
    """
    return unfit(fusion) or ("" if ends_in_rows(fusion, 1) else _not_rows(fusion))


def whole_rows_refusal(fusion: Program) -> str:
    """As `refusal`, but each row must lie in one piece."""
    return unfit(fusion) or ("" if ends_in_rows(fusion) else _not_rows(fusion))


def columns_refusal(fusion: Program) -> str:
    """As `refusal`, of columns that stay in registers."""
    if reason := unfit(fusion):
        return reason
    if ends_in_rows(fusion, 1):
        return f"{reductions(fusion)[0].name} reduces the fastest dimension"
    return ""


def _not_rows(fusion: Program) -> str:
    return f"{reductions(fusion)[0].name} reduces dimensions that are not rows"


def unfit(fusion: Program) -> str:
    """Why no block can keep what it reduces, wherever that lies; empty when one can."""
    if reason := does_not_reduce(fusion):
        return reason
    domains, first = cached_map(fusion), reductions(fusion)[0]
    return (
        differ(fusion, domains)
        or self_mapped(fusion, domains)
        or uncovered(fusion, domains, first)
        or _torn(fusion, domains, first)
    )


def ends_in_rows(fusion: Program, dimensions: int | None = None) -> bool:
    """Whether so many of the fastest dimensions are reduced: by default all that are.

    The widest input says which dimensions are the fastest.
    """
    domains, first = cached_map(fusion), reductions(fusion)[0]
    kept, gone = pattern(domains, first)
    places = [domains.group(axis) for axis in first.logical if not axis.is_broadcast]
    for tensor in sorted(fusion.input_tensors, key=lambda t: -t.rank):
        dims = [tensor.shape_axes[d] for d in tensor.memory_order()]
        groups = [domains.group(axis) for axis in dims if not axis.is_broadcast]
        if set(groups) == kept | gone:
            places = groups
            break
    count = len(gone) if dimensions is None else dimensions
    return set(places[len(places) - count :]) <= gone


def _torn(fusion: Program, domains: DomainMap, first: TensorView) -> str:
    """Of what follows a reduction, each tensor walks whole rows or none of them.

    A dimension that does not follow from those that are kept is of the rows, be it one of several
    that a reshape merged before they were reduced.
    """
    kept, gone = pattern(domains, first)
    results = Derivation(domains, dict.fromkeys(kept, integers.ZERO))
    after = after_reduction(fusion)
    for operation in fusion.operations:
        if isinstance(operation, Reduction):
            continue
        for output in operation.outputs:
            if output not in after:
                continue
            own = {group for group in walked(domains, output) if not results.reaches(group)}
            if own and not own >= gone and not _gives(domains, output, gone):
                return f"{output.name} has some of the dimensions that were reduced, not all"
    return ""


def walked(domains: DomainMap, tensor: TensorView) -> frozenset[Group]:
    """Groups of the dimensions that a tensor has, before and behind what reshapes it."""
    return domains.groups((*tensor.root, *tensor.logical))


def _gives(domains: DomainMap, tensor: TensorView, groups: Collection[Group]) -> bool:
    """Whether all these follow from the tensor's dimensions, as those before a reshape do."""
    known = dict.fromkeys(walked(domains, tensor), integers.ZERO)
    derivation = Derivation(domains, known)
    return all(map(derivation.reaches, groups))


def walks_rows(fusion: Program) -> set[TensorView]:
    """The computed tensors that have a reduced dimension, reduced or again: of rows that are made
    of parts, one of those that are reduced within a part.
    """
    domains = map_of(fusion)
    gone: frozenset[Group] = frozenset()
    for tensor in reductions(fusion):
        own = pattern(domains, tensor)[1]
        gone = gone & own or gone or own
    return {
        tensor
        for tensor in fusion.computed
        if any(
            domains.group(axis) in gone and not axis.is_broadcast and not axis.is_reduction
            for axis in (*tensor.root, *tensor.logical)
        )
    }


def stages(fusion: Program) -> dict[TensorView, int]:
    """By computed tensor, how many reductions one after the other it needs."""
    found: dict[TensorView, int] = {}
    for operation in fusion.operations:
        before = max((found.get(t, 0) for t in tensor_inputs(operation)), default=0)
        reduces = isinstance(operation, Reduction)
        for output in operation.outputs:
            found[output] = before + reduces
    return found
