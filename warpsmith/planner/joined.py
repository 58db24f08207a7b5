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
    home = {number: first[place] for place, group in enumerate(groups) for number in group}
    needs: dict[int, set[int]] = {}
    for place, group in zip(first, groups, strict=True):
        read = segments.graph.reads(segments.graph.slice(group, cuts))
        needs.setdefault(place, set()).update(t for t in read if home.get(t, place) != place)
    order = _in_order({place: {home[t] for t in read} for place, read in needs.items()})
    if len(order) < len(needs):
        return groups, cuts
    stored = sinks.union(*needs.values())
    inside = {t for t, place in home.items() if first.count(place) > 1 and t not in stored}
    found = [[t for t in home if home[t] == place and t not in inside] for place in order]
    return found, cuts - inside


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
