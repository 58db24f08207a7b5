"""Dependences between accesses of one scope: which must come first, and what runs between them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import field
from enum import Enum

from warpsmith.ir.domains import MemoryType
from warpsmith.kernel.clusters import SynchronizeCluster
from warpsmith.kernel.effects import Done, Proxy, Who
from warpsmith.kernel.nodes import Statement
from warpsmith.kernel.rings import Await, Cursor
from warpsmith.lower.ordering.scopes import Site, moving
from warpsmith.lower.ordering.tree import Node, Turns, carried, common, meets, straight
from warpsmith.values import dataclass


class Hazard(Enum):
    """What goes wrong where two accesses change places."""

    RAW = "read after write"
    WAR = "write after read"
    WAW = "write after write"


class Dependence:
    """`first` must be over before `second`."""

    __slots__ = ()

    first: Site
    second: Site

    @property
    def hazard(self) -> Hazard:
        if not self.first.writes:
            return Hazard.WAR
        return Hazard.WAW if self.second.writes else Hazard.RAW

    @property
    def buffer(self) -> str:
        return self.first.buffer.name

    @property
    def fenced(self) -> bool:
        """Whether the threads that come first make what they did known to the other proxy."""
        memory = self.first.buffer.memory
        first, second = self.first.effect.proxy, self.second.effect.proxy
        return memory is MemoryType.shared and (first, second) == (Proxy.GENERIC, Proxy.ASYNC)


@dataclass(slots=True, eq=False)
class Edge(Dependence):
    """One between two accesses, which statements between them order.

    Attributes:
        loop: by whose iterations the edge is carried, `turns` of them; None where it is not.
        again: iterations that run besides on the way out of a loop.
        same: the same thread does both, and needs to meet nobody.
        peeled: the first access stands in a loop's prologue, which fills ahead as the loop itself
            does, a group an iteration.
        through: what moves the stage on in each of these iterations.
        nodes: that order it.
    """

    first: Site
    second: Site
    loop: Node | None = None
    turns: int = 0
    again: Turns | None = None
    peeled: bool = False
    through: Node | None = None
    same: bool = False
    nodes: list[Node] = field(default_factory=list)

    @property
    def across(self) -> bool:
        """Whether threads of several blocks take part."""
        return self.first.effect.remote or self.second.effect.remote

    @property
    def more(self) -> int:
        """Groups that a prologue commits behind the first access, besides those on the way."""
        cursor = self.first.cursor
        return cursor.ahead - 1 if self.peeled and cursor is not None else 0

    @property
    def rank(self) -> tuple[int, bool, int]:
        """Edges that come first in this order may order later ones as well: inner lists, and in
        each what one iteration needs before what the next one does.
        """
        holder = common(self.first.item, self.second.item)
        return -len(list(holder.up())), self.loop is not None, self.second.node.number

    def way(self, to: Node | None = None) -> list[Node]:
        """What certainly runs between the two, or between the first and what holds the second."""
        a, b = self.first.node, to or self.second.node
        if self.loop is None:
            return list(straight(a, b, self.again))
        return list(carried(a, b, Turns(self.loop, self.turns - 1, self.through), self.again))

    def barrier(self) -> Node | None:
        """The last barrier between the two of those who take part, if there is one."""
        here = of_cluster if self.across else meets
        return next((n for n in reversed(self.way()) if here(n.statement)), None)


def of_cluster(statement: Statement | None) -> bool:
    """Whether threads know what those of other blocks did: all meet, or these have arrived."""
    waits = isinstance(statement, Await) and statement.of_cluster
    return waits or isinstance(statement, SynchronizeCluster)


def edges(found: Iterable[Site], exchanged: Collection[str]) -> list[Edge]:
    """All edges between the accesses of one scope.

    Args:
        exchanged: buffers of which some thread reads what another one wrote.
    """
    by_buffer: dict[str, list[Site]] = {}
    for site in found:
        by_buffer.setdefault(site.buffer.name, []).append(site)
    result: list[Edge] = []
    for name, own in by_buffer.items():
        private = _is_private(name, own, exchanged)
        using = [site.turning for site in own if not site.writes]
        for first in own:
            for second in own:
                way = _way(first, second, using) if _conflict(first, second) else None
                if way is not None:
                    same = private or (first.alone and second.alone)
                    result.append(Edge(first, second, *way, same=same))
    return result


def _is_private(name: str, own: list[Site], exchanged: Collection[str]) -> bool:
    """Whether each thread reads only what it wrote itself."""
    if own[0].buffer.memory is MemoryType.local:
        return True
    return (
        own[0].buffer.guarded
        and name not in exchanged
        and all(site.effect.who is Who.EACH and not site.effect.remote for site in own)
    )


def _conflict(first: Site, second: Site) -> bool:
    a, b = first.effect, second.effect
    if not (first.writes or second.writes):
        return False
    if first.buffer.memory is MemoryType.local:  # products follow each other in order
        last = first.writes or not a.writes  # of an update the write
        return last and a.done is Done.PRODUCTS and b.done is not Done.PRODUCTS
    if first.writes and second.writes:
        return a.proxy is not b.proxy  # elsewhere what is read between orders the two
    return True


_Way = tuple[Node | None, int, Turns | None, bool, Node | None]


def _way(first: Site, second: Site, using: Collection[Node | None]) -> _Way | None:
    """How the second access comes behind the first, by the way on which least runs between.

    Args:
        using: the loops that turn what is read; one that only fills is the prologue of such a loop.
    """
    before = first.node.number < second.node.number and first.item is not second.item
    holder = common(first.node, second.node)
    around = next((n for n in holder.up() if n.repeats and not _parted(n)), None)
    a, b = first.turning, second.turning
    if a is None or b is None or first.cursor is None or second.cursor is None:
        return _plain_way(before, around, None, peeled=False)
    turns = _distance(first.cursor, second.cursor)
    if a is b:
        if turns or (not before and around is a):
            return a, turns or first.cursor.stages, None, False, moving(a, first.cursor)
        return _plain_way(before, around, None, peeled=False)
    early, late = (loop not in using for loop in (a, b))
    between = 0 if early else (turns or first.cursor.stages) - (0 if late else 1)
    again = Turns(a, between, moving(a, first.cursor)) if between else None
    return _plain_way(before, around, again, peeled=early)


def _plain_way(
    before: bool, around: Node | None, again: Turns | None, *, peeled: bool
) -> _Way | None:
    if before:
        return None, 0, again, peeled, None
    return None if around is None else (around, 1, again, peeled, None)


def _distance(first: Cursor, second: Cursor) -> int:
    """Turns after which the second cursor is at the stage at which the first one is now."""
    return (first.ahead - second.ahead) % first.stages


def _parted(node: Node) -> bool:
    return any(each.parts for each in node.up())
