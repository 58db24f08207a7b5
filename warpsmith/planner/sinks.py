"""What a region writes, and which of it one kernel writes together."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from warpsmith.planner.segment import Segments

GROUPS_ASKED = 8
"""Segments that a sink is tried in, before it gets one of its own: it keeps the time linear."""

MOST_SINKS = 64
"""Tensors that one segment writes at most, where sinks are joined one by one: each is asked for
with all that are there, which would take time with the square of how many they are."""


def made_in(
    segments: Segments, region: Sequence[int], sinks: Sequence[int], stored: Collection[int]
) -> list[int]:
    """What the operations of a region make that is not in memory before, or is asked for. Of what
    is in memory, its narrow form is there, too.
    """
    there = set(stored).difference(sinks)
    there |= {segments.forms[number] for number in there if number in segments.forms} - set(sinks)
    return [number for p in region for number in segments.graph.made(p) if number not in there]


def all_sinks(
    segments: Segments, made: Sequence[int], sinks: Sequence[int], cuts: Collection[int]
) -> list[int]:
    """Tensors that must be written: those asked for, and cuts among what a region has `made`.

    A value and the narrow form in which it is stored count as one.
    """
    wanted = set(sinks)
    found = [number for number in made if number in wanted or number in cuts]
    forms = {segments.forms.get(number) for number in found}
    return [number for number in found if number not in forms]


def merge_sinks(
    segments: Segments,
    sinks: Sequence[int],
    cuts: frozenset[int],
    written: frozenset[int],
) -> list[list[int]]:
    """Join sinks into one segment where a scheduler takes them together and none needs another.

    A sink may join a group if nothing that it reads is made by that group or a later one, but for
    what is `written` whatever the cuts are, and if they have a tensor in common, or tensors that
    the program says are walked together: nothing else tells a kernel that dimensions are the same.
    Groups that a sink has something in common with become one by the same rules.
    """
    graph = segments.graph
    together = {t.number: group[0].number for group in graph.fusion.together for t in group}
    groups: list[list[int]] = []
    home: dict[int, int] = {}
    behind: list[int] = []  # of each group, the last one that it reads something of
    moved: list[int] = []  # the group that each has become
    having: dict[int, list[int]] = {}

    def stored_of(group: Sequence[int]) -> list[int]:
        return [*group, *(segments.forms[number] for number in group if number in segments.forms)]

    def fits(joined: list[int]) -> bool:
        return segments.go_together(joined, cuts) and segments.of(joined, cuts).can_be_scheduled

    for sink in sinks:
        positions = graph.slice([sink], cuts)
        needed = graph.reads(positions)
        near = {*needed, *(number for p in positions for number in graph.made(p))}
        near |= {together[number] for number in near if number in together}
        after = max((home[t] for t in needed if t in home), default=-1)
        common = {moved[group] for t in near for group in having.get(t, ())[-GROUPS_ASKED:]}
        late = sorted((g for g in common if g > after), reverse=True)[:GROUPS_ASKED]
        if after in common and all(t in written for t in needed if home.get(t) == after):
            late.append(after)  # it writes what they have in common, and goes on with it
        tried = [g for g in late if len(groups[g]) < MOST_SINKS]
        for place in tried:
            if fits([*groups[place], sink]):
                break
        else:
            place = len(groups)
            groups.append([])
            behind.append(-1)
            moved.append(place)
        groups[place].append(sink)
        read = (home[t] for t in needed if home.get(t, place) != place)
        behind[place] = max((behind[place], *read))
        for other in (g for g in tried if behind[place] < g < place):
            joined = [*groups[other], *groups[place]]
            if len(joined) <= MOST_SINKS and fits(joined):
                home |= dict.fromkeys(stored_of(groups[place]), other)
                groups[place], groups[other] = [], joined
                behind[other] = max(behind[other], behind[place])
                moved = [other if group == place else group for group in moved]
                place = other
                break
        home |= dict.fromkeys(stored_of([sink]), place)
        for tensor in near:
            others = having.setdefault(tensor, [])
            if place not in others[-GROUPS_ASKED:]:
                others.append(place)
    return [group for group in groups if group]
