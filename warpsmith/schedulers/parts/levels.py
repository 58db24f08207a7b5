"""Which dimensions of a fusion are kept, which tell parts of a row apart, and which are a part's.

A group norm's row is a group of an image, its parts are the group's channels, and a part is height
and width. What is summed of a part gives the gradients of weights; what is summed of these, or of
the row at once, is needed again by each element.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warpsmith.ir import integers
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.exprs import Reduction
from warpsmith.ir.mapping import DomainMap, Group
from warpsmith.ir.program import Program
from warpsmith.schedulers.pointwise.applicability import cached_map, self_mapped
from warpsmith.schedulers.reduction.applicability import (
    after_reduction,
    does_not_reduce,
    pattern,
    reductions,
    uncovered,
)
from warpsmith.schedulers.rows.applicability import walked
from warpsmith.values import dataclass

Groups = frozenset[Group]


@dataclass(frozen=True, slots=True)
class Levels:
    """Groups of dimensions: those of rows, of parts within a row, and of elements within a part."""

    kept: Groups
    parts: Groups
    inside: Groups


def levels_of(
    fusion: Program, domains: DomainMap, reads: Iterable[Sequence[IterDomain]]
) -> tuple[Levels | None, str]:
    """The levels of a fusion, or None and why it has none. Its first reduction is of elements.

    Args:
        reads: the dimensions of each input in memory order, as the groups know them.
    """
    reduced = reductions(fusion)
    patterns = {tensor: pattern(domains, tensor) for tensor in reduced}
    kept, inside = patterns[reduced[0]]
    for tensor in reduced[1:]:
        own, gone = patterns[tensor]
        if own | gone == kept | inside:
            kept, inside = kept | own, inside & gone
    whole = kept | inside
    rest = [(t, own, gone) for t, (own, gone) in patterns.items() if (own, gone) != (kept, inside)]
    if not rest:
        return _by_memory(domains, reads, kept, inside)
    rows = rest[0][1]
    if not rows <= kept:
        return None, f"{rest[0][0].name} keeps what {reduced[0].name} reduces"
    parts = kept - rows
    for tensor, own, gone in rest:
        if own != rows or gone not in (parts, whole - rows):
            return None, f"{tensor.name} reduces neither parts of rows nor rows of such parts"
    if not parts or not inside:
        return None, f"{rest[0][0].name} and {reduced[0].name} reduce the same of a row"
    return Levels(rows, parts, inside), ""


def _by_memory(
    domains: DomainMap, reads: Iterable[Sequence[IterDomain]], kept: Groups, gone: Groups
) -> tuple[Levels | None, str]:
    """Where all reductions are of whole rows, what lies outside of dimensions that are kept is
    within a piece of a row, and the pieces are parts; or parts of a row that lies in one piece are
    what weights tell apart.
    """
    known = [in_memory(domains, axes, kept | gone) for axes in reads]
    order = next((each for each in known if set(each) == kept | gone), None)
    if order is None:
        return None, "its rows are not made of parts"
    fastest = len(order)
    while fastest and order[fastest - 1] in gone:
        fastest -= 1
    parts = frozenset(order[fastest:])
    if parts and parts != gone:
        return Levels(kept, parts, gone - parts), ""
    for each in known:
        weights = gone.intersection(each)
        slowest = frozenset(order[fastest : fastest + len(weights)])
        if parts == gone and weights and weights == slowest != gone:
            return Levels(kept, weights, gone - weights), ""
    return None, "its rows are not made of parts"


def in_memory(domains: DomainMap, axes: Sequence[IterDomain], wanted: Groups) -> list[Group]:
    """Groups of dimensions in their order; of those that a reshape splits, the parts."""
    found: list[Group] = []
    pending = [domains.group(axis) for axis in reversed(axes) if not axis.is_broadcast]
    while pending:
        group = pending.pop()
        parts = () if group in wanted else _split(domains, group)
        found += () if parts else (group,)
        pending += reversed(parts)
    return found


def _split(domains: DomainMap, group: Group) -> tuple[Group, ...]:
    """The outer and the inner part of a dimension that is split; nothing where it is not."""
    for transform in domains.touching(group):
        whole, outer, inner = domains.sides(transform)
        if whole == group:
            return outer, inner
    return ()


def refusal(fusion: Program) -> str:
    """Why the scheduler cannot take the fusion; empty when it can."""
    if reason := does_not_reduce(fusion):
        return reason
    domains = cached_map(fusion)
    inputs = ([t.shape_axes[d] for d in t.memory_order()] for t in fusion.input_tensors)
    levels, reason = levels_of(fusion, domains, inputs)
    if levels is None:
        return reason
    if not levels.kept:
        return "all of it is one row"
    return (
        self_mapped(fusion, domains)
        or uncovered(fusion, domains, reductions(fusion)[0])
        or _unfit(fusion, domains, levels)
    )


def _unfit(fusion: Program, domains: DomainMap, levels: Levels) -> str:
    """Of what follows a reduction, each tensor is one of rows, of parts, or of all elements; and
    something is computed of elements again once a row is reduced.
    """
    rows = Derivation(domains, dict.fromkeys(levels.kept, integers.ZERO))
    reach = Derivation(domains, dict.fromkeys((*levels.kept, *levels.parts), integers.ZERO))
    after, again = after_reduction(fusion), False
    after_rows = fusion.after(
        lambda op: isinstance(op, Reduction) and pattern(domains, op.outputs[0])[0] == levels.kept
    )
    for operation in fusion.operations:
        if isinstance(operation, Reduction):
            continue
        for output in operation.outputs:
            if output not in after:
                continue
            own = walked(domains, output)
            given = Derivation(domains, dict.fromkeys(own, integers.ZERO))
            elements = all(map(given.reaches, levels.inside))
            again |= elements and output in after_rows
            apart = {group for group in own if not rows.reaches(group)}
            whole = all(map(given.reaches, levels.parts))
            if apart and not (whole and (elements or all(map(reach.reaches, apart)))):
                return f"{output.name} has some of the dimensions that were reduced, not all"
    return "" if again else "it needs no element again after it reduced a row"
