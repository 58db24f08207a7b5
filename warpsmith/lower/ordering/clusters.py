"""Where blocks of a cluster meet, besides between two accesses of one scope."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from warpsmith.kernel.clusters import AnnounceStart, AwaitStart, SynchronizeCluster
from warpsmith.kernel.nodes import Synchronize
from warpsmith.kernel.rings import Await, InitBarriers
from warpsmith.kernel.traversal import barriers
from warpsmith.lower.ordering.edges import of_cluster
from warpsmith.lower.ordering.scopes import Scope, Site
from warpsmith.lower.ordering.tree import Node, inside, straight

_STARTED = SynchronizeCluster("all blocks have started")
_OVER = SynchronizeCluster("no block is needed any more")


def meet_around(scope: Scope, own: Sequence[Site]) -> None:
    """Let blocks know before the first access of another one's memory that it has started, and
    meet behind the last one, for it has to run until then.

    Where barriers are made ready, all threads would meet at once. They announce that their block
    has started instead, and wait for the others before they use a barrier: what they load to
    registers is on its way by then.
    """
    remote = [site.node for site in own if site.effect.remote]
    if not remote:
        return
    start, end = _first(scope.root), scope.root.last(_OVER)[0]
    ready = _ready(start)
    if all(_met(straight(start, node)) is not None for node in remote):
        start.remove()
    elif not (
        (ready is not None and _announced(start, [*remote, *_waiting(ready)], ready))
        or _joined(start, remote)
    ):
        _announced(start, remote)
    if all(any(of_cluster(n.statement) for n in straight(node, end)) for node in remote):
        end.remove()


def _ready(start: Node) -> Node | None:
    """The barrier behind which mbarriers may be used, which is that of the start, too."""
    before, behind = start.siblings[: start.place], start.siblings[start.place + 1 :]
    begun = bool(before) and isinstance(before[-1].statement, InitBarriers)
    meets = bool(behind) and isinstance(behind[0].statement, Synchronize)
    return behind[0] if begun and meets else None


def _waiting(ready: Node) -> list[Node]:
    """Waits for barriers further down, and other uses but for those by the thread that initialized
    them.
    """
    return [
        node
        for after in ready.siblings[ready.place + 1 :]
        for node in after.walk()
        if node.statement is not None and barriers(node.statement)
        if isinstance(node.statement, Await) or not any(each.elects for each in node.up())
    ]


def _first(root: Node) -> Node:
    """A barrier at the start, behind what initializes the mbarriers that other blocks reach."""
    begun = [n for n in (root.body or ())[:1] if isinstance(n.statement, InitBarriers)]
    return begun[0].after(_STARTED)[0] if begun else root.first(_STARTED)[0]


def _met(way: Iterable[Node]) -> Node | None:
    return next((n for n in way if isinstance(n.statement, SynchronizeCluster)), None)


def _joined(start: Node, remote: Sequence[Node]) -> bool:
    """Let a barrier of the block before all these accesses, if any, be one of the cluster."""
    for node in start.siblings:
        if any(access in node.walk() for access in remote):
            return False
        if isinstance(node.statement, Synchronize):
            node.statement = replace(_STARTED, why=f"{node.statement.why}, {_STARTED.why}")
            start.remove()
            return True
    return False


def _announced(start: Node, uses: Sequence[Node], ready: Node | None = None) -> bool:
    """Let blocks go on once they have started, and wait before the first of these uses, in place
    of the barrier where mbarriers are `ready`; returns whether there is something in between.
    """
    assert start.parent is not None
    tops = [inside(use, start.parent) for use in uses]
    first = min(tops, key=lambda node: node.place)
    if first.place <= (ready or start).place + 1:
        return False
    start.statement = AnnounceStart()
    first.before(AwaitStart())
    if ready is not None:
        ready.remove()
    return True
