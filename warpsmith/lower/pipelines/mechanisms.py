"""What each verb of a pipeline is on the GPU: one table, by carrier and scope."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Expr, Symbol
from warpsmith.ir.substitution import substitute
from warpsmith.kernel.agents import Agent
from warpsmith.kernel.clock import AwaitClock
from warpsmith.kernel.clusters import ArriveRemote, ReleaseRemote, SynchronizeCluster, by_rank
from warpsmith.kernel.nodes import Buffer, For, If, Statement
from warpsmith.kernel.pipelines import Acquire, By, Commit, Pipeline, Release, Scope, Wait
from warpsmith.kernel.rings import (
    ELECTED,
    Arrive,
    ArriveByWarp,
    Await,
    Expect,
    FenceProxy,
    TileCopy,
)
from warpsmith.kernel.traversal import map_bodies, replace_symbols
from warpsmith.lower.pipelines.multicast import shared_out
from warpsmith.lower.pipelines.stages import Statements
from warpsmith.targets.family import WARP
from warpsmith.values import dataclass

MOST_TERMS = 8
"""Copies of a loop that differ in bytes, and are announced together all the same, at most."""


@dataclass(frozen=True, slots=True)
class Mechanism:
    """What the verbs become, each of a pipeline and the role that says it, if there are roles.

    Attributes:
        by_one: the TMA unit fills stages: one thread acquires, announces the bytes, and asks.
    """

    acquire: Callable[[Pipeline, Acquire], Statements]
    commit: Callable[[Pipeline, Commit, Agent | None], Statements]
    wait: Callable[[Pipeline, Wait], Statements]
    release: Callable[[Pipeline, Release, Agent | None], Statements]
    by_one: bool = False


def _await_free(pipeline: Pipeline, verb: Acquire) -> Statements:
    if pipeline.empty is None or verb.parity is None:
        return ()
    return (Await(pipeline.empty, verb.stage, verb.parity),)


def _announce(pipeline: Pipeline, verb: Acquire) -> Statements:
    """The stage is free in all blocks; then one thread says what all send to this one."""
    each = (integers.mul(c.elements, c.buffer.dtype.size) for c in pipeline.contents)
    expected = Expect(pipeline.full, verb.stage, integers.add(*each))
    return *_await_free_everywhere(pipeline, verb), If(ELECTED, (expected,))


def _await_free_everywhere(pipeline: Pipeline, verb: Acquire) -> Statements:
    """Roles wait for arrivals. Other blocks meet when stages come round."""
    if not pipeline.reused:
        return ()
    if pipeline.empty is not None:
        return *_await_free(pipeline, verb), FenceProxy(of_cluster=True)
    around = Apply("eq", (verb.stage, integers.ZERO), DataType.Bool)
    met = SynchronizeCluster(f"{pipeline.names[0]} is free again")
    return (If(around, (met, FenceProxy()), uniform=True),)


def _await_full(pipeline: Pipeline, verb: Wait) -> Statements:
    return (Await(pipeline.full, verb.stage, verb.parity),)


def _await_sent(pipeline: Pipeline, verb: Wait) -> Statements:
    return (Await(pipeline.full, verb.stage, verb.parity, of_cluster=True),)


def _arrive_full(pipeline: Pipeline, verb: Commit | Release, agent: Agent | None) -> Statements:
    return (_arrival(pipeline.full, verb.stage, agent),)


def _arrive_free(pipeline: Pipeline, verb: Release, agent: Agent | None) -> Statements:
    return (_arrival(pipeline.empty, verb.stage, agent),) if pipeline.empty is not None else ()


def _arrive_free_everywhere(pipeline: Pipeline, verb: Release, agent: Agent | None) -> Statements:
    """At the barriers of all blocks that load something for this one's stage."""
    if pipeline.empty is None:
        return ()
    ranks = tuple(map(by_rank, zip(*pipeline.peers, strict=True)))
    kind = ArriveRemote if agent is not None and agent.elected else ReleaseRemote
    return (kind(pipeline.empty, verb.stage, ranks),)


def _nothing(*_: object) -> Statements:
    return ()


def _arrival(barrier: Buffer, stage: Expr, agent: Agent | None) -> Statement:
    if agent is not None and agent.elected:
        return Arrive(barrier, stage)
    return ArriveByWarp(barrier, stage)


_BYTES = Mechanism(_await_free, _nothing, _await_full, _arrive_free, by_one=True)
_MULTICAST = Mechanism(_await_free, _nothing, _await_full, _arrive_free_everywhere, by_one=True)
_SENDS = Mechanism(_announce, _nothing, _await_sent, _arrive_free_everywhere)
_ARRIVALS = Mechanism(_await_free, _arrive_full, _await_full, _arrive_free)
_IN_PLACE = Mechanism(_nothing, _nothing, _nothing, _nothing)
_TURNS = Mechanism(_nothing, _nothing, _await_full, _arrive_full)

MECHANISMS: Mapping[tuple[By, Scope], Mechanism] = {
    (By.TMA, Scope.AGENT): _BYTES,
    (By.TMA, Scope.BLOCK): _BYTES,
    (By.TMA, Scope.CLUSTER): _MULTICAST,
    (By.COPIES, Scope.AGENT): _IN_PLACE,
    (By.COPIES, Scope.BLOCK): _ARRIVALS,
    (By.THREADS, Scope.AGENT): _IN_PLACE,
    (By.THREADS, Scope.BLOCK): _ARRIVALS,
    (By.SENDS, Scope.CLUSTER): _SENDS,
    (By.REGISTERS, Scope.AGENT): _IN_PLACE,
    (By.NOTHING, Scope.BLOCK): _TURNS,
}
"""Where threads of one agent fill a stage and use it, `order` finds where they must meet, and which
groups of copies they await; between roles, too, it adds the fences and the waits for groups."""


def lowered(
    statements: Statements, pipelines: Mapping[str, Pipeline], agent: Agent | None
) -> Statements:
    """The statements, of one role if there are roles, with what verbs become in place of them."""
    result: list[Statement] = []
    position = 0
    while position < len(statements):
        statement = statements[position]
        position += 1
        if not isinstance(statement, Acquire | Commit | Wait | Release):
            result.append(map_bodies(statement, lambda body: lowered(body, pipelines, agent)))
            continue
        pipeline = pipelines[statement.pipeline]
        mechanism = MECHANISMS[pipeline.by, pipeline.scope]
        match statement:
            case Acquire() if mechanism.by_one:
                end = statements.index(Commit(pipeline.name, statement.stage), position)
                free = (*mechanism.acquire(pipeline, statement), *_on_time(pipeline, statement))
                copies = shared_out(statements[position:end], pipeline)
                asked = (*free, *_armed(copies, pipeline.full, statement.stage))
                alone = agent is not None and agent.elected
                result += asked if alone else (If(ELECTED, asked),)
                position = end + 1
            case Acquire():
                result += mechanism.acquire(pipeline, statement)
            case Commit():
                result += mechanism.commit(pipeline, statement, agent)
            case Wait():
                result += mechanism.wait(pipeline, statement)
            case Release():
                result += mechanism.release(pipeline, statement, agent)
    return tuple(result)


def arrivals(
    pipeline: Pipeline, roles: Mapping[str, Agent], own: Agent | None, threads: Expr
) -> tuple[tuple[Buffer, Expr | None], ...]:
    """How often a phase of each barrier is arrived at; None is once for each warp of the block.

    Args:
        roles: all, by name.
        own: the role that has the pipeline in place; None without roles.
        threads: of the block.
    """
    if not pipeline.is_guarded:
        return ()
    used: Expr | None
    if pipeline.producer:
        used = integers.add(*(_warps(pipeline, roles[name]) for name in pipeline.consumers))
    elif own is not None:
        used = _warps(pipeline, own)
    else:
        used = integers.ceildiv(threads, WARP) if pipeline.peers else None
    if used is not None and pipeline.peers:
        used = integers.mul(used, len(pipeline.peers[0]))
    filled: Expr | None = used
    if pipeline.counts_bytes:
        filled = integers.ONE
    elif pipeline.contents:
        filled = _warps(pipeline, roles[pipeline.producer])
    return tuple(zip(pipeline.barriers, (filled, used), strict=False))


def _warps(pipeline: Pipeline, agent: Agent) -> Expr:
    """Those of a role, or of one of its groups, that arrive at a stage's barrier."""
    if agent.elected:
        return integers.ONE
    together = agent.name not in pipeline.groups.roles
    return integers.mul(agent.group_warps, agent.groups if together else 1)


# --- bytes -------------------------------------------------------------------------------------


def _on_time(pipeline: Pipeline, verb: Acquire) -> Statements:
    return () if verb.times is None else (AwaitClock(verb.times, pipeline.interval),)


def _armed(copies: Statements, barrier: Buffer, stage: Expr) -> Statements:
    """Copies that count at the barrier, with what announces their bytes."""
    copies = _side_by_side(copies)
    total = _total(copies)
    counted = tuple(
        s for each in copies for s in _counted(each, barrier, stage, announce=total is None)
    )
    if total is not None:
        return (Expect(barrier, stage, total), *counted)
    return (*counted, Expect(barrier, stage, integers.ZERO))


def _side_by_side(copies: Statements) -> Statements:
    """Loops of equal length as one, in which copies of one row have a condition in common."""
    result: list[Statement] = []
    for each in copies:
        last = result[-1] if result else None
        if isinstance(each, For):
            if isinstance(last, For) and (last.extent, last.unroll) == (each.extent, each.unroll):
                own = (replace_symbols(s, {each.symbol: last.symbol}) for s in each.body)
                each = replace(last, body=(*last.body, *own))
                result.pop()
            each = replace(each, body=_side_by_side(each.body))
        result.append(each)
    return tuple(result)


def _total(statements: Statements) -> Expr | None:
    """Bytes of all copies; None where they differ in a loop of many iterations."""
    total: Expr = integers.ZERO
    for statement in statements:
        amount: Expr | None
        if isinstance(statement, For):
            amount = _of_all(statement, _total(statement.body))
            if amount is None:
                return None
        else:
            assert isinstance(statement, TileCopy)
            parts = 1 if statement.multicast is None else statement.multicast.shares
            amount = integers.mul(statement.bytes, parts)
        total = integers.add(total, amount)
    return total


def _of_all(loop: For, each: Expr | None) -> Expr | None:
    """Bytes of all iterations, of `each` of them."""
    if each is None or not _depends(each, loop.symbol):
        return None if each is None else integers.mul(each, loop.extent)
    count = integers.constant(loop.extent)
    if count is None or count > MOST_TERMS:
        return None
    numbers = map(integers.index, range(count))
    return integers.add(*(substitute(each, {loop.symbol: number}) for number in numbers))


def _depends(expr: Expr, symbol: Symbol) -> bool:
    return any(isinstance(n, Symbol) and n.name == symbol.name for n in expr.walk())


def _counted(statement: Statement, barrier: Buffer, stage: Expr, announce: bool) -> Statements:
    if isinstance(statement, For):
        body = tuple(s for c in statement.body for s in _counted(c, barrier, stage, announce))
        return (replace(statement, body=body),)
    assert isinstance(statement, TileCopy)
    copy = replace(statement, barrier=(barrier, stage))
    amount = _total((copy,))
    assert amount is not None
    return (Expect(barrier, stage, amount, arrives=False), copy) if announce else (copy,)
