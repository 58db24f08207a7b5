"""Groups of what runs while its threads go on: where they are committed, and waited for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from warpsmith.kernel.effects import Done
from warpsmith.kernel.nodes import Buffer, If, Statement
from warpsmith.kernel.products import AwaitProducts, CommitProducts
from warpsmith.kernel.rings import ELECTED, AwaitCopies, CommitCopies, FenceProxy
from warpsmith.lower.ordering.scopes import Scope, Site
from warpsmith.lower.ordering.tree import Node, arrives, inside, meets


def commits(statement: Statement | None, done: Done) -> bool:
    """Whether a statement commits groups of a kind."""
    return isinstance(statement, CommitCopies | CommitProducts) and statement.done is done


def waits(statement: Statement | None, done: Done) -> int | None:
    """How many groups of a kind may be open behind a statement; None where it waits for none."""
    if isinstance(statement, AwaitCopies | AwaitProducts) and statement.done is done:
        return statement.pending
    return None


def commit_statement(done: Done) -> Statement:
    return CommitProducts() if done is Done.PRODUCTS else CommitCopies(bulk=done is Done.STORES)


def place_commits(sites: Iterable[Site], done: Done, holders: dict[Site, Node]) -> list[Node]:
    """Commit what stands in one list as one group, up to what waits for it.

    Args:
        sites: all of a scope.
        holders: of each access of this kind, the node in whose list its group is committed.
    """
    runs: dict[int, list[Node]] = {}
    now: dict[int, bool] = {}
    names = {site.buffer.name for site in holders}
    using = {id(s.node) for s in sites if s.buffer.name in names and s not in holders}
    for site, holder in holders.items():
        node = inside(site.node, holder)
        own = runs.setdefault(id(holder), [])
        if node not in own:
            own.append(node)
            now[id(node)] = site.cursor is None or not site.cursor.ahead
    made: list[Node] = []
    for own in runs.values():
        own.sort(key=lambda node: node.place)
        for node, following in zip(own, [*own[1:], None], strict=True):
            together = (
                following is not None
                and now[id(node)] == now[id(following)]
                and not any(_waits(each, using) for each in _between(node, following))
            )
            if not together and not _committed(node, done):
                made += node.after(commit_statement(done))
    return made


def _between(node: Node, following: Node) -> list[Node]:
    found = node.siblings[node.place + 1 : following.place]
    return [inner for each in found for inner in each.walk()]


def _waits(node: Node, using: Collection[int]) -> bool:
    return id(node) in using or meets(node.statement) or arrives(node.statement)


def _committed(node: Node, done: Done) -> bool:
    """Whether a commit stands behind the node already."""
    for each in node.siblings[node.place + 1 :]:
        if commits(each.statement, done):
            return True
        if meets(each.statement):
            return False
    return False


def awaited(way: Sequence[Node], done: Done, until: Node | None, more: int = 0) -> Node | None:
    """The wait on a way behind which the first group on it is over, before `until` or its end.

    Args:
        more: groups that are committed behind the first one besides those on the way.
    """
    count = 0
    for node in way[: _last(way, until)]:
        count += commits(node.statement, done)
        open_groups = waits(node.statement, done)
        if open_groups is not None and count and open_groups < count + more:
            return node
    return None


def still_open(way: Sequence[Node], done: Done, until: Node | None) -> int:
    """Groups that may be open, with the first one on a way over, before `until` or its end."""
    count = sum(commits(node.statement, done) for node in way[: _last(way, until)])
    return max(count - 1, 0)


def wait_before(before: Node, done: Done, pending: int, scope: Scope) -> Node:
    """The wait that stands before a node for at most so many groups; one for all who ask."""
    wait: Statement
    if done is Done.PRODUCTS:
        wait = AwaitProducts(pending)
    else:
        wait = AwaitCopies(bulk=done is Done.STORES, pending=pending)
    known = _neighbour(before, done)
    if known is not None:
        least = min(pending, waits(known.statement, done) or 0)
        assert isinstance(known.statement, AwaitCopies | AwaitProducts)
        known.statement = replace(known.statement, pending=least)
        return known
    return by_one(before, wait, scope) if done is Done.STORES else before.before(wait)[0]


def keep_behind(wait: Node, sums: Buffer) -> None:
    """Let a wait for products name sums that are read behind it."""
    if isinstance(wait.statement, AwaitProducts):
        both = dict.fromkeys((*wait.statement.accumulators, sums))
        wait.statement = replace(wait.statement, accumulators=tuple(both))


def by_one(before: Node, statement: Statement, scope: Scope) -> Node:
    """Let the thread that asks for copies run a statement before a node."""
    if scope.elected or any(node.elects for node in before.up() if node is not before):
        return before.before(statement)[0]
    place = before.place
    known = before.siblings[place - 1] if place else None
    if known is not None and known.elects:
        return known.last(statement)[0]
    (node,) = before.before(If(ELECTED, (statement,)))
    assert node.body is not None
    return node.body[0]


def _neighbour(before: Node, done: Done) -> Node | None:
    """A wait for groups of a kind before a node, with other waits and fences between."""
    for node in reversed(before.siblings[: before.place]):
        inner = node.body or [] if node.elects else [node]
        if not inner or not isinstance(inner[-1].statement, _ORDERING):
            return None
        for each in reversed(inner):
            if waits(each.statement, done) is not None:
                return each
            if not isinstance(each.statement, _ORDERING):
                return None
    return None


_ORDERING = (AwaitCopies, AwaitProducts, FenceProxy)


def _last(way: Sequence[Node], until: Node | None) -> int:
    """Position of a node's last place on a way; the way's end for one that is not on it."""
    found = [place for place, node in enumerate(way) if node is until]
    return found[-1] if found else len(way)
