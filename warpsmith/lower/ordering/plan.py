"""The plan of one kernel: what its accesses need, each at its place."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.errors import InternalError
from warpsmith.ir.domains import MemoryType
from warpsmith.kernel.effects import Done
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Comment
from warpsmith.kernel.rings import AwaitCopies
from warpsmith.lower.ordering.barriers import place_barriers
from warpsmith.lower.ordering.clusters import meet_around
from warpsmith.lower.ordering.edges import Edge, edges
from warpsmith.lower.ordering.fences import fence_edges, fence_fills, fence_refills
from warpsmith.lower.ordering.groups import (
    awaited,
    by_one,
    commits,
    keep_behind,
    place_commits,
    still_open,
    wait_before,
    waits,
)
from warpsmith.lower.ordering.late_fills import delay_fills
from warpsmith.lower.ordering.mbarrier_edges import MbarrierEdge, mbarrier_edges
from warpsmith.lower.ordering.products import Batch, delay_releases, place_batches
from warpsmith.lower.ordering.scopes import Scope, Site, scopes, sites
from warpsmith.lower.ordering.stores import delay_arrivals
from warpsmith.lower.ordering.tree import Node, common, inside
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """All edges of a kernel, and its bodies with what orders them.

    Attributes:
        edges: within one scope.
        guards: through the rings.
        batches: of products.
        ends: stores, with the wait for all of them at the end of their scope.
    """

    scopes: tuple[Scope, ...]
    edges: tuple[Edge, ...]
    guards: tuple[MbarrierEdge, ...]
    batches: tuple[Batch, ...]
    ends: tuple[tuple[Site, Node], ...]


def planned(kernel: Kernel) -> Plan:
    """Find every edge of a kernel, and order it.

    Raises:
        InternalError: memory passes between roles, and no ring guards it; or an edge cannot be
            ordered where it is.
    """
    bodies = scopes(kernel)
    by_scope = [list(sites(kernel, scope)) for scope in bodies]
    ringed = {name for pipeline in kernel.pipelines for name in pipeline.names}
    _check_apart(by_scope, ringed)
    through = mbarrier_edges(kernel.pipelines, [site for own in by_scope for site in own])
    within: list[Edge] = []
    batches: list[Batch] = []
    ends: list[tuple[Site, Node]] = []
    for scope, own in zip(bodies, by_scope, strict=True):
        found = edges([s for s in own if s.buffer.name not in ringed], kernel.exchanged)
        place_barriers(found)
        mine = [guard for guard in through if guard.first.scope is scope]
        batches += _order_groups(scope, own, found, mine)
        meet_around(scope, own)
        ends += _finish(scope, own)
        within += found
    fence_refills(through)
    return Plan(bodies, tuple(within), tuple(through), tuple(batches), tuple(ends))


def _check_apart(by_scope: Sequence[Sequence[Site]], ringed: set[str]) -> None:
    """No role touches shared memory that another one writes, rings aside."""
    for own in by_scope:
        for site in own:
            name = site.buffer.name
            if not site.writes or name in ringed:
                continue
            for others in by_scope:
                for other in others:
                    if other.scope is not site.scope and other.buffer.name == name:
                        raise InternalError(
                            f"{name} passes from {site.scope.name} to {other.scope.name}, and no "
                            "ring guards it"
                        )


def _order_groups(
    scope: Scope, own: Sequence[Site], found: Sequence[Edge], mine: Sequence[MbarrierEdge]
) -> list[Batch]:
    """Groups of copies, stores and products: commits, waits, and the fences between them."""
    batches = place_batches(scope, own)
    late = [guard for batch in batches for guard in delay_releases(batch, mine, own)]
    rest = [guard for guard in mine if guard not in late]
    for done in (Done.COPIES, Done.STORES):
        asking = [s for s in own if s.effect.done is done and _is_shared(s.buffer)]
        place_commits(own, done, {s: _holder(s, found, rest) for s in asking})
    later = delay_arrivals(scope, [guard for guard in rest if not guard.first.writes])
    later += delay_fills(scope, [guard for guard in rest if guard not in later])
    rest = [guard for guard in rest if guard not in later]
    _await(scope, found, rest, Done.COPIES)
    fence_edges(found)
    fence_fills(rest)
    _await(scope, found, rest, Done.STORES)
    _await(scope, found, rest, Done.PRODUCTS)
    return batches


def _is_shared(buffer: Buffer) -> bool:
    return buffer.memory is MemoryType.shared


def _holder(site: Site, found: Sequence[Edge], mine: Sequence[MbarrierEdge]) -> Node:
    """The node in whose list the group of a copy is committed: one group a turn."""
    elected = next((n for n in site.node.up() if n.elects), None)
    if elected is not None:
        return elected
    for guard in mine:
        if guard.first is site and guard.stop.parent is not None:
            return guard.stop.parent
    awaiting = [e for e in found if e.first is site and e.first.awaited and not e.peeled]
    near = [common(site.node, e.second.node) for e in awaiting if e.loop is None]
    near += [site.turning] if site.turning is not None else []
    return max(near, key=lambda n: len(list(n.up()))) if near else site.scope.root


def _await(scope: Scope, found: Sequence[Edge], mine: Sequence[MbarrierEdge], done: Done) -> None:
    """Wait for groups before the barrier, the arrival, or the access that relies on it."""
    asking: list[Edge | MbarrierEdge] = [*mine, *found]
    asking = [each for each in asking if each.first.awaited is done]
    for each in sorted(
        asking, key=lambda each: (isinstance(each, Edge) and each.peeled, each.rank)
    ):
        if isinstance(each, Edge):
            each.nodes.append(_awaited(scope, each, done))
            continue
        way = each.way()
        pending = still_open(way, done, None)
        known = awaited(way, done, None) or wait_before(each.stop, done, pending, scope)
        each.nodes.append(known)


def _awaited(scope: Scope, edge: Edge, done: Done) -> Node:
    way = edge.way()
    barrier = None if edge.same else edge.barrier()
    known = awaited(way, done, barrier, edge.more)
    if known is None:
        before = barrier or inside(edge.second.item, common(edge.first.item, edge.second.item))
        until = way if barrier is not None else edge.way(before)
        pending = still_open(until, done, barrier) + edge.more
        known = wait_before(before, done, pending, scope)
    if not _is_shared(edge.first.buffer) and edge.first.writes:
        keep_behind(known, edge.first.buffer)
    return known


def _finish(scope: Scope, own: Sequence[Site]) -> list[tuple[Site, Node]]:
    """At its end, the thread that asked for stores waits until all of them have been read."""
    stored = [s for s in own if s.effect.done is Done.STORES]
    if not stored or all(_over(site) for site in stored):
        return []
    (end,) = scope.root.last(Comment("the end"))
    wait = by_one(end, AwaitCopies(bulk=True), scope)
    end.remove()
    return [(site, wait) for site in stored]


def _over(site: Site) -> bool:
    """Whether a store's group is waited for right behind it."""
    count = 0
    for node in _behind(site.node):
        count += commits(node.statement, Done.STORES)
        if count and waits(node.statement, Done.STORES) == 0:
            return True
    return False


def _behind(node: Node) -> list[Node]:
    result: list[Node] = []
    for each in node.up():
        if each.parent is None or (each.is_loop and each is not node):
            break
        for other in each.siblings[each.place + 1 :]:
            result += other.walk() if other.elects else [other]
    return result
