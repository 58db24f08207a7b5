"""Proxy fences: what threads did to shared memory comes before what the TMA unit or wgmma does."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.kernel.pipelines import Scope
from warpsmith.kernel.rings import FenceProxy
from warpsmith.lower.ordering.edges import Edge, Hazard
from warpsmith.lower.ordering.groups import by_one
from warpsmith.lower.ordering.mbarrier_edges import MbarrierEdge
from warpsmith.lower.ordering.tree import Node, common, inside


def fence_edges(edges: Sequence[Edge]) -> None:
    """Each thread that wrote, or read, fences before the barrier; once for all that follows."""
    for edge in edges:
        if not edge.fenced:
            continue
        way = edge.way()
        barrier = None if edge.same else edge.barrier()
        end = way.index(barrier) if barrier is not None else len(way)
        known = _fence(way[:end])
        if known is None:
            known = _placed(edge, barrier)
        edge.nodes.append(known)


def fence_fills(guards: Sequence[MbarrierEdge]) -> None:
    """Threads that fill a stage fence before they say so, where what reads it goes another way."""
    for guard in guards:
        if guard.fenced and guard.hazard is Hazard.RAW:
            guard.nodes.append(_fence(guard.way()) or guard.stop.before(FenceProxy())[0])


def fence_refills(guards: Sequence[MbarrierEdge]) -> None:
    """What threads read in a stage, and the TMA unit writes next, is fenced by the one thread that
    asks for the copy, once it knows that all are done: less than if each reader fences, and
    measured to cost nothing (docs/lessons/rings.md).
    """
    for guard in guards:
        if guard.fenced and guard.hazard is Hazard.WAR:
            fence = _refilled(guard)
            if guard.pipeline.scope is Scope.CLUSTER:
                fence.statement = FenceProxy(of_cluster=True)
            guard.nodes.append(fence)


def _fence(way: Sequence[Node]) -> Node | None:
    return next((node for node in reversed(way) if isinstance(node.statement, FenceProxy)), None)


def _placed(edge: Edge, barrier: Node | None) -> Node:
    fence = FenceProxy()
    scope = edge.first.scope
    if barrier is not None:
        if edge.first.alone and not edge.same:
            return by_one(barrier, fence, scope)
        return barrier.before(fence)[0]
    before = inside(edge.second.node, common(edge.first.node, edge.second.node))
    if before.elects and before.body:
        before = before.body[0]
    return before.before(fence)[0]


def _refilled(guard: MbarrierEdge) -> Node:
    """The fence of the thread that fills a stage anew, behind its wait."""
    site, wait = guard.second, guard.wait
    alone = next((n for n in site.node.up() if n.elects), None)
    if alone is None or alone in wait.up():
        for node in wait.siblings[wait.place + 1 :]:
            if isinstance(node.statement, FenceProxy):
                return node
            if site.node in node.walk():
                break
        return wait.after(FenceProxy())[0]
    assert alone.body is not None
    first = alone.body[0]
    return first if isinstance(first.statement, FenceProxy) else first.before(FenceProxy())[0]
