"""Which of a tensor's loops its own dimensions depend on."""

from __future__ import annotations

from warpsmith.ir.domains import IterDomain
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap, Group


def independent_axes(fusion: Fusion, domains: DomainMap) -> dict[int, frozenset[int]]:
    """Per tensor, its loop axes that none of its own dimensions depends on.

    Such a loop comes from a dimension that the tensor lacks; its value is the same in every
    iteration.
    """
    result: dict[int, frozenset[int]] = {}
    for tensor in fusion.tensors:
        own = {
            domains.group(axis) for axis in (*tensor.root, *tensor.logical) if not axis.is_broadcast
        }
        result[id(tensor)] = frozenset(
            id(axis) for axis in tensor.loop if not _connected(domains, axis) & own
        )
    return result


def origins(domains: DomainMap, group: Group, own: set[Group]) -> set[Group]:
    """The groups that a group was made from, back to those that nothing made or that are `own`."""
    found: set[Group] = set()
    stack = [group]
    while stack:
        current = stack.pop()
        if current in found:
            continue
        found.add(current)
        made_by = [
            t
            for t in domains.touching(current)
            if current not in own and any(domains.group(a) == current for a in t.results)
        ]
        for transform in made_by:
            found.discard(current)
            parts = {transform.axis, transform.outer, transform.inner}
            stack += [domains.group(a) for a in parts - set(transform.results)]
    return found


def _connected(domains: DomainMap, axis: IterDomain) -> set[int]:
    """Groups that the axis is made from, and groups made from it."""
    found: set[int] = set()
    for upwards in (True, False):
        stack = [domains.group(axis)]
        seen: set[int] = set()
        while stack:
            group = stack.pop()
            if group in seen:
                continue
            seen.add(group)
            for transform in domains.touching(group):
                results = {domains.group(a) for a in transform.results}
                whole = {transform.axis, transform.outer, transform.inner}
                sources = {domains.group(a) for a in whole - set(transform.results)}
                if upwards and group in results:
                    stack += sources
                elif not upwards and group in sources:
                    stack += results
        found |= seen
    return found
