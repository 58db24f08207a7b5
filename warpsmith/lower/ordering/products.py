"""Matrix products: their fences and groups, and stages that are released an iteration later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Expr
from warpsmith.kernel.clusters import ReleaseRemote
from warpsmith.kernel.effects import Done
from warpsmith.kernel.nodes import Buffer, For, If, Statement
from warpsmith.kernel.products import (
    AwaitProducts,
    CommitProducts,
    FenceProducts,
    MatrixRegisters,
    Multiply,
)
from warpsmith.kernel.rings import Advance, ArriveByWarp, Cursor
from warpsmith.lower.ordering.mbarrier_edges import MbarrierEdge
from warpsmith.lower.ordering.scopes import Scope, Site
from warpsmith.lower.ordering.tree import Node, arrives, meets
from warpsmith.values import dataclass


@dataclass(slots=True, eq=False)
class Batch:
    """Products with nothing between that touches their registers: one fence, one group.

    Attributes:
        nodes: in one list, the first and the last included.
        held: operands in registers.
    """

    scope: Scope
    nodes: list[Node]
    sums: tuple[Buffer, ...]
    held: tuple[Buffer, ...]
    fence: Node
    commit: Node

    @property
    def holder(self) -> Node:
        assert self.nodes[0].parent is not None
        return self.nodes[0].parent

    def holds(self, site: Site) -> bool:
        return any(node in self.nodes for node in site.node.up())


def place_batches(scope: Scope, sites: Sequence[Site]) -> list[Batch]:
    """Fence each batch of products, and commit it as a group; none where that is done already."""
    nodes = list(scope.root.walk())
    if any(isinstance(node.statement, CommitProducts) for node in nodes):
        return []
    tops = dict.fromkeys(_top(n) for n in nodes if isinstance(n.statement, Multiply))
    result: list[Batch] = []
    for run in _runs(list(tops), sites):
        walked = [n.statement for top in run for n in top.walk()]
        found = [s for s in walked if isinstance(s, Multiply)]
        sums = tuple(dict.fromkeys(s.accumulators for s in found))
        held = tuple(dict.fromkeys(s.a.buffer for s in found if isinstance(s.a, MatrixRegisters)))
        (fence,) = run[0].before(FenceProducts(sums))
        (commit,) = run[-1].after(CommitProducts())
        result.append(Batch(scope, run, sums, held, fence, commit))
    return result


def _top(node: Node) -> Node:
    """The outermost loop around a product that holds nothing but products."""
    while node.parent is not None and node.parent.is_loop and _pure(node.parent):
        node = node.parent
    return node


def _pure(node: Node) -> bool:
    return all(isinstance(each.statement, Multiply | For) for each in node.walk())


def _runs(tops: Sequence[Node], sites: Sequence[Site]) -> Iterator[list[Node]]:
    """Products of one list in a row, up to what touches their sums or says they are over."""
    run: list[Node] = []
    for top in tops:
        if run and not (run[-1].parent is top.parent and _continues(run, top, sites)):
            yield run
            run = []
        run.append(top)
    if run:
        yield run


def _continues(run: list[Node], top: Node, sites: Sequence[Site]) -> bool:
    between = top.siblings[run[-1].place + 1 : top.place]
    inner = [each for node in between for each in node.walk()]
    if any(meets(each.statement) or arrives(each.statement) for each in inner):
        return False
    touched = {id(site.node) for site in sites if site.effect.done is not Done.PRODUCTS}
    return not any(id(each) in touched for each in inner)


# --- one group on its way ----------------------------------------------------------------------


def delay_releases(
    batch: Batch, guards: Sequence[MbarrierEdge], sites: Sequence[Site]
) -> list[MbarrierEdge]:
    """Let one group stay on its way from one iteration of a loop to the next.

    Before::

        for k: { await full; products; commit; release empty[stage]; advance }

    After::

        for k: { await full; products; commit; await all groups but one;
                 if 0 < k: release empty[stage - 1];  advance }
        await all groups;  if the loop ran: release empty[stage - 1]

    Where groups take turns, and hand on to the next one behind the loop, they do so before they
    wait: tensor cores then have its products at once.

    Of products that read registers, the group is awaited where these are written again::

        for k: { await full; compute; await all groups; if 0 < k: release empty[stage - 1];
                 registers = ...; products; commit; advance }

    Where nothing comes behind the loop that would fill the stages anew, for these threads or for
    others that take turns with them, the last one is left as it is. Returns the edges that are
    ordered by it: none where the loop runs once, where its sums are touched in it, or where the
    stage is filled again before it is free: one that is the ring's only one, or that the same
    threads fill as far ahead as there are stages.
    """
    loop = batch.holder
    mine = [guard for guard in guards if batch.holds(guard.first)]
    cursors = _trailing(batch, mine)
    written = _written(batch, sites)
    if not mine or not cursors or written is None or not _alone(batch, sites, written):
        return []
    assert isinstance(loop.statement, For)
    symbol, extent = loop.statement.symbol, loop.statement.extent
    if written:
        (wait,) = written[0].before(AwaitProducts(0))
    else:
        (wait,) = batch.commit.after(AwaitProducts(1))
    runs = integers.less(0, extent) == integers.TRUE
    again = any(node.repeats for node in loop.up() if node is not loop) or any(map(_goes_on, mine))
    end = AwaitProducts(0, batch.sums, apart=runs or not again)
    late: list[ArriveByWarp | ReleaseRemote] = []
    delayed: list[Node] = []
    for node, cursor in cursors.items():
        assert isinstance(node.statement, ArriveByWarp | ReleaseRemote)
        release = replace(node.statement, stage=_previous(cursor))
        late.append(release)
        again_free = If(integers.less(0, symbol), (release,), uniform=True)
        (condition,) = wait.after(again_free) if written else node.before(again_free)
        assert condition.body is not None
        delayed += condition.body
        node.remove()
    behind = _hand_on(loop, guards) or loop
    over, *last = behind.after(end, *(_if_it_ran(extent, late) if again else ()))
    last = [each for node in last for each in node.body or [node]]
    moved = dict(zip(cursors, delayed, strict=True))
    late_too = [guard for guard in guards if guard.arrival in moved]
    for guard in late_too:  # of the same stages, some are read by threads alone
        if guard in mine:
            guard.nodes += [batch.commit, wait, over, *last]
        guard.arrival = moved[guard.arrival]
    return late_too


def _goes_on(guard: MbarrierEdge) -> bool:
    """Whether another agent fills the stages in a loop that runs inside another one, or awaits at
    its end that all are free.
    """
    fill = guard.second
    if fill.scope is guard.first.scope or fill.cursor is None:
        return False
    moved = [n for n in fill.scope.root.walk() if n.statement == Advance(fill.cursor)]
    return len(moved) > 1 or any(sum(o.repeats for o in node.up()) > 1 for node in moved)


def _hand_on(loop: Node, guards: Sequence[MbarrierEdge]) -> Node | None:
    """Directly behind a loop, the arrival by which a group lets the next one begin; None where
    there is none. It says nothing of memory, so products of both groups may be on their way.
    """
    following = loop.siblings[loop.place + 1 : loop.place + 2]
    for node in following:
        if isinstance(node.statement, ArriveByWarp) and all(g.arrival is not node for g in guards):
            return node
    return None


def _if_it_ran(extent: Expr, late: Sequence[Statement]) -> Sequence[Statement]:
    ran = integers.less(0, extent)
    return late if ran == integers.TRUE else [If(ran, tuple(late), uniform=True)]


def _previous(cursor: Cursor) -> Expr:
    """The stage before a cursor's."""
    stage = cursor.stage
    first = Apply("eq", (stage, integers.ZERO), DataType.Bool)
    return Apply(
        "where", (first, integers.index(cursor.stages - 1), integers.sub(stage, 1)), stage.dtype
    )


def _trailing(batch: Batch, mine: Sequence[MbarrierEdge]) -> dict[Node, Cursor]:
    """The releases of a batch's stages, with their cursors; none where they cannot be delayed."""
    loop = batch.holder
    found: dict[Node, Cursor] = {}
    for guard in mine:
        cursor, node = guard.first.cursor, guard.arrival
        if (
            cursor is None
            or node.parent is not loop
            or not isinstance(node.statement, ArriveByWarp | ReleaseRemote)
        ):
            return {}
        if node.statement.stage != cursor.stage or not _steps(loop, node, cursor):
            return {}
        fill = guard.second
        if fill.scope is guard.first.scope and not _is_free(fill, cursor.stages):
            return {}
        found[node] = cursor
    return found


def _is_free(fill: Site, stages: int) -> bool:
    """Whether a fill takes a stage that is released two iterations before, or earlier."""
    return fill.cursor is not None and fill.cursor.ahead <= stages - 2


def _steps(loop: Node, release: Node, cursor: Cursor) -> bool:
    """Whether the loop moves a cursor by one stage an iteration, behind the release."""
    moving = [
        n
        for n in loop.walk()
        if isinstance(n.statement, Advance) and n.statement.cursor.name == cursor.name
    ]
    return (
        len(moving) == 1
        and moving[0].statement == Advance(cursor)
        and moving[0] in release.siblings[release.place :]
    )


def _written(batch: Batch, sites: Sequence[Site]) -> list[Node] | None:
    """The statements of a batch's loop that write the registers which its products read, in order;
    None where one of them does not stand before the batch.
    """
    names = {buffer.name for buffer in batch.held}
    tops = {
        node.place: node
        for site in sites
        if site.buffer.name in names and not batch.holds(site)
        for node in site.node.up()
        if node.parent is batch.holder
    }
    found = [tops[place] for place in sorted(tops)]
    return found if all(node.place < batch.nodes[0].place for node in found) else None


def _alone(batch: Batch, sites: Sequence[Site], written: Sequence[Node]) -> bool:
    """Whether a loop runs more than once, and touches the sums in no other way than by a batch,
    and registers that it reads by those that are `written` before.
    """
    loop = batch.holder
    if not isinstance(loop.statement, For) or integers.constant(loop.statement.extent) == 1:
        return False
    names = {buffer.name for buffer in (*batch.sums, *batch.held)}
    return not any(
        loop in site.node.up()
        and not batch.holds(site)
        and not any(node in written for node in site.node.up())
        for site in sites
        if site.buffer.name in names or site.effect.done is Done.PRODUCTS
    )
