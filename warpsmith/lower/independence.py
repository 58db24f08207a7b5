"""Which of a tensor's loops its own dimensions depend on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

from warpsmith.ir.derivation import Derivation
from warpsmith.ir.domains import IterDomain, Merge, Split
from warpsmith.ir.exprs import Move
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap, Group
from warpsmith.ir.scalar import Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.reach import reached


def independent_axes(fusion: Fusion, domains: DomainMap) -> dict[TensorView, frozenset[IterDomain]]:
    """Per tensor, its loop axes that none of its own dimensions depends on.

    Such a loop comes from a dimension that the tensor lacks; its value is the same in every
    iteration.
    """
    result: dict[TensorView, frozenset[IterDomain]] = {}
    connected: dict[Group, set[Group]] = {}
    moves = [op for op in fusion.operations if isinstance(op, Move)]
    otherwise = any(move.kind == "reshape" or move.repeats for move in moves)
    for tensor in fusion.tensors:
        own = {
            domains.group(axis) for axis in (*tensor.root, *tensor.logical) if not axis.is_broadcast
        }
        loops = {axis: domains.group(axis) for axis in tensor.loop}
        needed = _needed(domains, loops, own) if otherwise else None
        if needed is not None:
            apart = {axis for axis, group in loops.items() if group not in needed}
        else:
            for group in loops.values():
                if group not in connected:
                    connected[group] = _connected(domains, group)
            apart = {axis for axis, group in loops.items() if connected[group].isdisjoint(own)}
        result[tensor] = frozenset(apart)
    return result


def _needed(
    domains: DomainMap, loops: dict[IterDomain, Group], own: set[Group]
) -> set[Group] | None:
    """The loops that the indices of a tensor's own dimensions have in them; None where they do not
    say them all.

    Where a reshape gives back what another one took, every dimension is made of every other, so
    what a loop is connected with says too much there; and too little where what is repeated is a
    part of a dimension of which a loop is another one.
    """
    known = {
        group: Symbol(f"u{n}", low=0, extent=domains.extent_of(axis))
        for n, (axis, group) in enumerate(loops.items())
    }
    derivation = Derivation(domains, known)
    if not all(map(derivation.reaches, own)):
        return None
    found = {part for group in own for part in derivation.index(group).walk()}
    return {group for group, symbol in known.items() if symbol in found}


def origins(domains: DomainMap, group: Group, known: Callable[[Group], bool]) -> set[Group]:
    """The groups that a group was made from, back to those that nothing made or that are known."""
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
            if not known(current) and any(domains.group(a) == current for a in t.results)
        ]
        for transform in made_by:
            found.discard(current)
            parts = {transform.axis, transform.outer, transform.inner}
            stack += [domains.group(a) for a in parts - set(transform.results)]
    return found


def lacking(
    domains: DomainMap, group: Group, own: set[Group], above: frozenset[Group] = frozenset()
) -> set[Group]:
    """What is left of a group when the `own` ones that were made from it are known.

    Of `i` that a reshape splits into `n` and `m`, a tensor with `n` alone lacks `m`: neither `i`,
    nor what loops split it into, nor the dimensions that were merged into `i`.

    Args:
        above: those that the group was made from on the way here.
    """
    if group in own:
        return set()
    if group in above:
        return {group}
    made = _made_from(domains, group)
    told = [part for parts in made if _below(domains, parts) & own for part in parts]
    if not told:
        return {group}
    return {left for part in told for left in lacking(domains, part, own, above | {group})}


def _below(domains: DomainMap, parts: Iterable[Group]) -> set[Group]:
    """Groups, and all that were made from them."""
    return {*reached(parts, lambda group: chain(*_made_from(domains, group)))}


def _made_from(domains: DomainMap, group: Group) -> list[tuple[Group, ...]]:
    """What each split, or merge with another one, made from a group."""
    found: dict[tuple[Group, ...], None] = {}
    for transform in domains.touching(group):
        results = {axis: domains.group(axis) for axis in transform.results}
        if group not in results.values():
            found[tuple(results.values())] = None
    return list(found)


def _connected(domains: DomainMap, group: Group) -> set[Group]:
    """The group, those that it is made from, and those made from it."""
    found: set[Group] = set()
    for upwards in (True, False):
        stack = [group]
        seen: set[Group] = set()
        while stack:
            current = stack.pop()
            if current in seen:
                continue
            seen.add(current)
            if upwards:
                seen.update(domains.sides(each)[0] for each in domains.across(current))
            for transform in domains.touching(current):
                whole, outer, inner = domains.sides(transform)
                sources, results = [whole], [outer, inner]
                if isinstance(transform, Split) and transform.by_group and current == outer:
                    seen.update((domains.chosen_by(whole) or ())[:1])
                if isinstance(transform, Merge):
                    sources, results = results, sources
                if upwards and current in results:
                    stack += sources
                elif not upwards and current in sources:
                    stack += results
        found |= seen
    return found
