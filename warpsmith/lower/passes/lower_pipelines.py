"""Give every pipeline its verbs where stages are filled and used, and its barriers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.scalar import Symbol
from warpsmith.kernel.agents import Agent, Branch
from warpsmith.kernel.clock import AwaitClock, StartClock
from warpsmith.kernel.clusters import AnnounceStart, AwaitStart, SynchronizeCluster
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, Statement, Synchronize
from warpsmith.kernel.pipelines import By, Pipeline, Scope
from warpsmith.kernel.rings import Advance, Await, Begin, InitBarriers
from warpsmith.kernel.traversal import walk
from warpsmith.lower.pipelines.mechanisms import arrivals, lowered
from warpsmith.lower.pipelines.role_pipelines import End, joined, orders, placed
from warpsmith.lower.pipelines.software import Loops
from warpsmith.lower.pipelines.stages import Statements, filled


def lower_pipelines(kernel: Kernel) -> Kernel:
    """Place the four verbs of every pipeline, and replace them by what they are on the GPU.

    First, what roles hand to each other: each counts the stages that it passes. Then, what an agent
    fills and uses itself: its loops fill some iterations ahead (`lower/pipelines/software.py`).
    Last, each verb becomes what the table of `lower/pipelines/mechanisms.py` says.

    Before::

        role load, one elected thread:
            for i < n: { one stage of T1: fill T1: T1[..] = T0[i, ..] by tma }
        role compute, 128 threads:
            for i < n: { one stage of T1: T2[i, ..] = f(T1[..]) }

    With the verbs::

        role load:      for i < n: { acquire; T1[stage..] = T0[i, ..]; commit;  advance }
        role compute:   for i < n: { wait; T2[i, ..] = f(T1[stage..]); release;  advance }

    Where blocks of a cluster fill stages for each other, all of them have started before they do. A
    role whose copies go to other blocks ends when these have released the stages; without roles,
    and where threads send to one place again, blocks meet before any ends, and `order` says where
    else.

    After::

        initialize ring0_full (1), ring0_empty (4);  meet
        role load:      for i < n: { await empty; expect bytes; T1[stage..] = T0[i, ..];  advance }
        role compute:   for i < n: { await full; T2[i, ..] = f(T1[stage..]); arrive at empty;  .. }
    """
    if not kernel.pipelines:
        return kernel
    given = {pipeline.name: pipeline for pipeline in kernel.pipelines}
    branches = kernel.branches
    roles = {branch.agent.name: branch.agent for branch in branches}
    between = (*joined(branches, given), *orders(branches, given))
    loops = Loops(given, used=sum(bool(pipeline.contents) for pipeline in between))
    exchanges = (p for p in kernel.pipelines if p.by is By.SENDS)
    found: list[tuple[Pipeline, Agent | None]] = [(p, None) for p in (*between, *exchanges)]
    body: list[Statement] = []
    for statement in kernel.body if branches else ():
        if isinstance(statement, Branch):
            statement = placed(statement, between)
            _check_groups(statement, given)
            inner = _in_place(statement.body, loops, found, statement.agent)
            left = _released(statement.agent, between)
            statement = replace(statement, body=(*inner, *left))
        body.append(statement)
    if not branches:
        body += _in_place(kernel.body, loops, found, None)
    threads = integers.mul(*kernel.launch.block)
    found.sort(key=lambda each: each[0].by is By.SENDS)
    counts = tuple(n for each, own in found for n in arrivals(each, roles, own, threads))
    start: list[Statement] = []
    if any(p.scope is Scope.CLUSTER and (branches or p.by is By.TMA) for p, _ in found):
        ready = SynchronizeCluster("barriers of all blocks are ready")
        start += [
            InitBarriers(counts),
            *((AnnounceStart(), AwaitStart()) if branches else (ready,)),
        ]
        if not branches or any(p.by is By.SENDS and p.empty is not None for p, _ in found):
            body.append(SynchronizeCluster("no block is reached any more"))
    elif counts:
        start += [InitBarriers(counts), Synchronize("barriers are ready")]
    if any(isinstance(s, AwaitClock) for s in walk(tuple(body))):
        start.append(StartClock())
    return replace(
        kernel,
        body=(*start, *body),
        shared=(*kernel.shared, *(barrier for barrier, _ in counts)),
        pipelines=tuple(pipeline for pipeline, _ in found if pipeline.is_guarded),
    )


def _released(agent: Agent, pipelines: Iterable[Pipeline]) -> Iterator[Statement]:
    """Waits at the end of a role for all that other blocks still say of the stages that it fills.

    So their arrivals reach no block that has ended, and blocks need not meet, which would fence all
    memory.
    """
    for end in (End(p, agent) for p in pipelines if p.scope is Scope.CLUSTER):
        empty, cursor = end.pipeline.empty, end.cursor
        if end.fills and empty is not None:
            parity = integers.sub(1, cursor.phase)
            passed = Await(empty, cursor.stage, parity), Advance(cursor)
            each = Symbol(f"{cursor.name}_left", low=0, extent=integers.index(cursor.stages))
            yield For(each, integers.index(cursor.stages), passed, unroll=False)


def _in_place(
    statements: Statements,
    loops: Loops,
    found: list[tuple[Pipeline, Agent | None]],
    agent: Agent | None,
) -> Statements:
    """The body of one agent with its own pipelines, too, and what all its verbs become."""
    verbs = loops.statements(statements)
    begin, own = loops.taken()
    found += [(pipeline, agent) for pipeline in own]
    pipelines = {pipeline.name: pipeline for pipeline, _ in found}
    return (*map(Begin, begin), *lowered(verbs, pipelines, agent))


def _check_groups(branch: Branch, given: Mapping[str, Pipeline]) -> None:
    """Groups of a role do not meet, so they fill no shared memory in place."""
    own = (given[name] for name in filled(branch.body))
    shared = [p.name for p in own if p.contents[0].buffer.memory is MemoryType.shared]
    if shared and branch.agent.groups > 1:
        raise ScheduleError(
            f"{shared[0]} is filled by role `{branch.agent.name}` itself, whose "
            f"{branch.agent.groups} groups take turns and do not meet",
            code="WS0255",
            remedy=f"let another role fill {shared[0]}: circular_buffer(..., role=...)",
        )
