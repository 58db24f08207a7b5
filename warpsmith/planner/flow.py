"""The cheapest set of values to store: a minimal cut of a small graph by the bytes of its nodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Mapping, Sequence

from warpsmith.reach import reached

Node = Hashable
_SOURCE, _TARGET = "source", "target"
_WITHOUT_END = 1 << 40


def cheapest_cut(
    source: Node,
    readers: Mapping[Node, Sequence[Node]],
    needed: Collection[Node],
    cost: Mapping[Node, int],
) -> frozenset[Node]:
    """The nodes of the smallest total cost that all paths from the source to a needed node pass.

    A path may be cut at its ends. Of several such sets it is the one farthest from the source.

    Args:
        readers: by node, those that are made of it.
        cost: of each node, 0 or more.
    """
    capacity: dict[Node, dict[Node, int]] = {}

    def link(a: Node, b: Node, most: int) -> None:
        capacity.setdefault(a, {})[b] = most
        capacity.setdefault(b, {}).setdefault(a, 0)

    link(_SOURCE, (source, "in"), _WITHOUT_END)
    for node, price in cost.items():
        link((node, "in"), (node, "out"), price)
        for reader in readers.get(node, ()):
            link((node, "out"), (reader, "in"), _WITHOUT_END)
        if node in needed:
            link((node, "out"), _TARGET, _WITHOUT_END)
    while path := _path(capacity):
        least = min(capacity[a][b] for a, b in path)
        for a, b in path:
            capacity[a][b] -= least
            capacity[b][a] += least
    behind = _reaching(capacity)
    return frozenset(n for n in cost if (n, "out") in behind and (n, "in") not in behind)


def _path(capacity: Mapping[Node, Mapping[Node, int]]) -> list[tuple[Node, Node]]:
    """A shortest path with room left, as its links; empty where there is none."""
    before: dict[Node, Node] = {_SOURCE: _SOURCE}
    pending: deque[Node] = deque([_SOURCE])
    while pending and _TARGET not in before:
        here = pending.popleft()
        for following, room in capacity.get(here, {}).items():
            if room > 0 and following not in before:
                before[following] = here
                pending.append(following)
    links: list[tuple[Node, Node]] = []
    node: Node = _TARGET
    while node in before and node != _SOURCE:
        links.append((before[node], node))
        node = before[node]
    return links[::-1]


def _reaching(capacity: Mapping[Node, Mapping[Node, int]]) -> set[Node]:
    """The nodes from which there is room left to the target."""

    def before(node: Node) -> list[Node]:
        return [each for each in capacity.get(node, {}) if capacity[each].get(node, 0) > 0]

    target: Node = _TARGET
    return {*reached((target,), before)}
