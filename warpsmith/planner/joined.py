"""The groups of a region's sinks, a kernel each, where it was decided that some are one."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.planner.segment import Segments


def as_decided(
    segments: Segments, groups: list[list[int]], cuts: frozenset[int], sinks: frozenset[int]
) -> tuple[list[list[int]], frozenset[int]]:
    """Groups and cuts without what then crosses memory no more: the same as given where nothing was
    decided of them, or where one would wait for itself.

    Args:
        groups: numbers of the tensors that each kernel writes, in an order in which they can run.
        cuts: numbers of the tensors that are in memory for whoever does not make them.
        sinks: those of the groups' tensors that others need than the groups.
    """
    first = _joined(segments, groups)
    if first == list(range(len(groups))):
        return groups, cuts
    forms = segments.forms
    home = {forms.get(t, t): first[place] for place, group in enumerate(groups) for t in group}
    needs: dict[int, set[int]] = {}
    for place, group in zip(first, groups, strict=True):
        read = segments.graph.reads(segments.graph.slice(group, cuts))
        lying = {forms.get(t, t) for t in read}
        needs.setdefault(place, set()).update(t for t in lying if home.get(t, place) != place)
    order = _in_order({place: {home[t] for t in lying} for place, lying in needs.items()})
    if len(order) < len(needs):
        return groups, cuts
    stored = {forms.get(t, t) for t in sinks}.union(*needs.values())
    inside = {t for t, place in home.items() if first.count(place) > 1 and t not in stored}
    written = [t for group in groups for t in group if forms.get(t, t) not in inside]
    found = [[t for t in written if home[forms.get(t, t)] == place] for place in order]
    return found, frozenset(t for t in cuts if forms.get(t, t) not in inside)


def _joined(segments: Segments, groups: Sequence[Sequence[int]]) -> list[int]:
    """For each group the place of the last of those that are one with it."""
    forms, places = segments.forms, list(range(len(groups)))
    writer = {forms.get(t, t): place for place, group in enumerate(groups) for t in group}
    for pair in sorted(segments.decided.joined):
        met = sorted(places[writer[t]] for t in pair if t in writer)
        if len(met) == 2:
            places = [met[1] if place == met[0] else place for place in places]
    return places


def _in_order(needs: dict[int, set[int]]) -> list[int]:
    """Places so that each comes behind those that it needs, else as before; without those that need
    each other.
    """
    order: dict[int, None] = {}
    left = sorted(needs)
    while ready := [place for place in left if needs[place] <= order.keys()]:
        order[ready[0]] = None
        left.remove(ready[0])
    return list(order)
