"""Where threads of one scope meet, so that what some did is over before others go on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from warpsmith.errors import InternalError
from warpsmith.kernel.clusters import SynchronizeCluster
from warpsmith.kernel.nodes import Statement, Synchronize
from warpsmith.lower.ordering.edges import Edge, Hazard
from warpsmith.lower.ordering.tree import Node, common, inside, tree

Gap = tuple[Node, int]
"""A place in a list: the node that holds it, and the position of what would stand there."""


def place_barriers(edges: Iterable[Edge]) -> None:
    """Put as few barriers as it takes, and as late as they may stand.

    Barriers of a cluster come first: they are those of each block, too. Of the places that would
    order an edge, the one that orders most others is taken.
    """
    wanted = sorted((e for e in edges if not e.same), key=lambda e: (not e.across, e.rank))
    while wanted:
        edge = wanted.pop(0)
        if edge.barrier() is None:
            others = [each for each in wanted if each.barrier() is None]
            kind = SynchronizeCluster() if edge.across else Synchronize()
            gaps = _gaps(edge)
            _put(*max(gaps, key=lambda gap, k=kind, rest=others: _orders(gap, k, rest)), kind)  # type: ignore[misc]
    for edge in edges:
        barrier = None if edge.same else edge.barrier()
        if barrier is not None:
            edge.nodes.append(barrier)
    _explain([edge for edge in edges if not edge.same])


def _gaps(edge: Edge) -> list[Gap]:
    """Buffers between the two accesses, the latest first."""
    holder = common(edge.first.item, edge.second.item)
    if edge.loop is not None:
        for node in holder.up():
            if node is edge.loop:
                break
            if node.is_loop:
                assert node.parent is not None
                holder = node.parent
    if any(node.parts for node in holder.up()):
        raise InternalError(
            f"{edge.buffer} passes between threads under a condition that parts them"
        )
    end = inside(edge.second.item, holder).place
    start = inside(edge.first.item, holder).place if edge.loop is None else -1
    return [(holder, place) for place in range(end, start, -1)]


def _orders(gap: Gap, kind: Statement, edges: Sequence[Edge]) -> int:
    """How many edges a barrier there would order."""
    holder, place = gap
    node = _put(holder, place, kind)
    found = sum(edge.barrier() is not None for edge in edges)
    node.remove()
    return found


def _put(holder: Node, place: int, kind: Statement) -> Node:
    assert holder.body is not None
    node = tree(kind, holder)
    holder.body.insert(place, node)
    return node


def _explain(edges: Sequence[Edge]) -> None:
    """Say at each new barrier what it is for."""
    served: dict[int, tuple[Node, list[Edge]]] = {}
    for edge in edges:
        for node in edge.nodes:
            served.setdefault(id(node), (node, []))[1].append(edge)
    for node, own in served.values():
        if node.number >= 0:
            continue
        late = {edge.buffer for edge in own if edge.hazard is not Hazard.WAR}
        free = {edge.buffer for edge in own} - late
        words = [f"{name} is written" for name in sorted(late)]
        words += [f"{name} is free again" for name in sorted(free)]
        assert isinstance(node.statement, Synchronize | SynchronizeCluster)
        node.statement = replace(node.statement, why=", ".join(words))
