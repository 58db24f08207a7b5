"""What was planned, in words: each edge with its mechanism and the reason for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from warpsmith.ir.domains import MemoryType
from warpsmith.kernel.clusters import AnnounceStart, SynchronizeCluster
from warpsmith.kernel.effects import Done, Proxy
from warpsmith.kernel.nodes import Buffer, For, Statement, Synchronize
from warpsmith.kernel.orders import Order
from warpsmith.kernel.products import AwaitProducts
from warpsmith.kernel.rings import AwaitCopies, FenceProxy, InitBarriers
from warpsmith.lower.ordering.edges import Edge, Hazard
from warpsmith.lower.ordering.groups import commits
from warpsmith.lower.ordering.mbarrier_edges import MbarrierEdge
from warpsmith.lower.ordering.plan import Plan
from warpsmith.lower.ordering.products import Batch
from warpsmith.lower.ordering.scopes import Site
from warpsmith.lower.ordering.tree import Node, meets


def orders(plan: Plan) -> tuple[Order, ...]:
    """All edges, equal ones once, with the numbers that their statements get here."""
    numbers = _Numbers()
    found: dict[tuple[str, ...], list[int]] = {}
    for edge in plan.edges:
        nodes = [*_commits(edge, edge.way()), *edge.nodes]
        found.setdefault(_edge(edge), []).extend(map(numbers.of, nodes))
    for guard in plan.guards:
        nodes = [*_commits(guard, guard.way()), *guard.nodes, guard.arrival, guard.wait]
        found.setdefault(_guard(guard), []).extend(map(numbers.of, nodes))
    for batch in plan.batches:
        for buffer in (*batch.sums, *batch.held):
            found.setdefault(_batch(batch, buffer), []).append(numbers.of(batch.fence))
    for site, wait in plan.ends:
        if site.buffer.memory is MemoryType.shared:
            found.setdefault(_end(site, wait), []).append(numbers.of(wait))
    return tuple(
        Order(
            buffer=buffer,
            hazard=hazard,
            first=first,
            second=second,
            carried=carried,
            mechanism=mechanism,
            why=why,
            statements=tuple(sorted(set(made))),
        )
        for (buffer, hazard, first, second, carried, mechanism, why), made in found.items()
    )


class _Numbers:
    """Gives the statements of nodes numbers, from 1 on."""

    def __init__(self) -> None:
        self._last = 0

    def of(self, node: Node) -> int:
        assert node.statement is not None
        if not node.statement.number:
            self._last += 1
            node.statement = replace(node.statement, number=self._last)
        return node.statement.number


def _commits(edge: Edge | MbarrierEdge, way: Sequence[Node]) -> Iterator[Node]:
    """The statement that commits the group that must be over."""
    done = edge.first.awaited
    if done is not None:
        yield from [node for node in way if commits(node.statement, done)][:1]


_STARTS: Mapping[type[Statement], str] = {
    AnnounceStart: "start of the cluster's blocks",
    SynchronizeCluster: "barrier of the cluster",
    Synchronize: "barrier of the block",
}
"""What makes an initialization known to all."""


def starts(
    body: tuple[Statement, ...], known: Sequence[Order]
) -> tuple[tuple[Statement, ...], tuple[Order, ...]]:
    """The barriers behind which mbarriers may be used, with numbers; and what they order."""
    last = max((number for order in known for number in order.statements), default=0)
    result = list(body)
    found: list[Order] = []
    for place, (statement, following) in enumerate(pairwise(body)):
        kind = next((k for k in _STARTS if isinstance(following, k)), None)
        if isinstance(statement, InitBarriers) and kind is not None:
            result[place] = replace(statement, number=last + 1)
            result[place + 1] = replace(following, number=last + 2)
            names = ", ".join(barrier.name for barrier, _ in statement.arrivals)
            found.append(
                Order(
                    buffer=names,
                    hazard=Hazard.RAW.value,
                    first="block: one thread initializes (generic)",
                    second="all: arrivals, waits, and bytes of the TMA unit",
                    carried="straight on",
                    mechanism=f"fence of the initialization + {_STARTS[kind]}",
                    why="other threads and the TMA unit use it",
                    statements=(last + 1, last + 2),
                )
            )
            last += 2
    return tuple(result), tuple(found)


# --- edges of one scope ------------------------------------------------------------------------


def _edge(edge: Edge) -> tuple[str, ...]:
    mechanism, why = _mechanism(edge)
    return (*_sides(edge), _carried(edge), mechanism, why)


def _sides(edge: Edge | MbarrierEdge) -> tuple[str, str, str, str]:
    return edge.buffer, edge.hazard.value, _side(edge.first), _side(edge.second)


def _side(site: Site) -> str:
    role = site.scope.name or "block"
    return f"{role}: {site.effect.words} ({site.effect.proxy.value})"


def _carried(edge: Edge) -> str:
    if edge.loop is None:
        return "a loop's prologue" if edge.peeled else "straight on"
    assert isinstance(edge.loop.statement, For)
    name = edge.loop.statement.symbol.name
    return f"{edge.turns} iterations of {name}" if edge.turns > 1 else f"the next {name}"


def _mechanism(edge: Edge) -> tuple[str, str]:
    parts = [_group(node) for node in edge.nodes if isinstance(node.statement, _WAITS)]
    parts += ["proxy fence"] * any(isinstance(n.statement, FenceProxy) for n in edge.nodes)
    met = any(meets(node.statement) for node in edge.nodes)
    parts += [_barrier(edge)] * met
    if not parts:
        one = edge.first.alone and edge.second.alone
        return "none", "one thread does both" if one else "each thread reads what it wrote itself"
    reasons = [_overdue(edge.first)] if edge.first.awaited is not None else []
    reasons += ["the other proxy would not see it"] * edge.fenced
    reasons += [_others(edge)] * met
    return " + ".join(parts), "; ".join(reasons)


def _barrier(edge: Edge) -> str:
    scope = edge.first.scope
    if edge.across:
        return "barrier of the cluster"
    if scope.agent is None:
        return "barrier of the block"
    if scope.agent.is_warp:
        return "__syncwarp"
    more = " and on, one a group" if scope.agent.groups > 1 else ""
    return f"named barrier {scope.agent.barrier}{more}"


def _group(node: Node) -> str:
    assert isinstance(node.statement, _WAITS)
    pending = node.statement.pending
    kind = "product" if isinstance(node.statement, AwaitProducts) else "cp.async"
    if isinstance(node.statement, AwaitCopies) and node.statement.bulk:
        kind = "bulk"
    return f"{kind} group, {pending} may be open"


def _overdue(site: Site) -> str:
    if site.effect.done is Done.STORES:
        return "a store reads its source until its group has"
    if site.effect.done is Done.PRODUCTS:
        return "a product goes on until its group is done"
    return "a copy has not landed until its group has"


def _others(edge: Edge) -> str:
    if edge.hazard is Hazard.WAR:
        return "other threads may not be done with it"
    return "other threads wrote it"


_WAITS = (AwaitCopies, AwaitProducts)


def _end(site: Site, wait: Node) -> tuple[str, ...]:
    after = "block: gives up its memory"
    sides = (site.buffer.name, Hazard.WAR.value, _side(site), after)
    return (*sides, "the end", _group(wait), _overdue(site))


def _batch(batch: Batch, buffer: Buffer) -> tuple[str, ...]:
    does = "accumulates" if buffer in batch.sums else "reads registers"
    return (
        buffer.name,
        Hazard.RAW.value,
        f"{batch.scope.name or 'block'}: threads leave registers (generic)",
        f"{batch.scope.name or 'block'}: wgmma {does} (async)",
        "straight on",
        "wgmma fence",
        "products start from registers as they were left; once for a batch",
    )


# --- rings -------------------------------------------------------------------------------------


def _guard(guard: MbarrierEdge) -> tuple[str, ...]:
    full = guard.hazard is Hazard.RAW
    barrier = guard.pipeline.full if full else guard.pipeline.empty
    assert barrier is not None
    parts = [_group(node) for node in guard.nodes if isinstance(node.statement, _WAITS)]
    parts = list(dict.fromkeys(parts))
    parts += ["proxy fence"] * any(isinstance(n.statement, FenceProxy) for n in guard.nodes)
    met = any(meets(node.statement) for node in guard.nodes)
    parts += ["barrier of the cluster"] * met
    mechanism = " + ".join([*parts, f"mbarrier {barrier.name}"])
    stages = guard.pipeline.stages
    carried = f"{guard.pipeline.name}, {stages} stage{'s' if stages > 1 else ''}"
    return (*_sides(guard), carried, mechanism, _reason(guard))


def _reason(guard: MbarrierEdge) -> str:
    first, second = guard.first.effect, guard.second.effect
    reasons = [_overdue(guard.first)] if guard.first.awaited is not None else []
    if guard.fenced and guard.hazard is Hazard.RAW:
        reasons.append("each thread that wrote fences before it arrives")
    elif guard.fenced:
        reasons.append("the thread that fills anew fences for all that read")
    elif first.done is Done.BYTES and second.proxy is Proxy.GENERIC:
        reasons.append("a load's end implies the fence")
    elif first.proxy is second.proxy:
        reasons.append(f"no fence: both by the {first.proxy.value} proxy")
    else:
        reasons.append("no fence: the wait for its group implies it")
    return "; ".join(reasons)
