"""The bodies of roles: each is lowered from its own operations, with loops of its own."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.errors import ScheduleError
from warpsmith.ir.fusion import Fusion
from warpsmith.kernel.agents import Agent, Branch
from warpsmith.kernel.nodes import Statement
from warpsmith.kernel.pipelines import By, Groups, OneStage, Pipeline, Section
from warpsmith.kernel.traversal import walk
from warpsmith.lower.agents import agent_of, laid_out
from warpsmith.lower.buffers import Buffers
from warpsmith.lower.channels import Channels
from warpsmith.lower.emit import Emitter
from warpsmith.lower.nests import Nests
from warpsmith.lower.roles import Roles
from warpsmith.lower.rows_ahead import with_rows_ahead
from warpsmith.lower.siblings import in_order_of_use, siblings_of
from warpsmith.lower.skips import Skips
from warpsmith.lower.threads import find_role_threads
from warpsmith.lower.tile_scheduler import MOST, NAME, counter, handed_out
from warpsmith.lower.vectors import Vectorizer
from warpsmith.targets.family import Limits


def branches(
    fusion: Fusion, buffers: Buffers, roles: Roles, vectors: Vectorizer, limits: Limits
) -> tuple[Statement, ...]:
    """A branch for the agent of each role, producers first.

    Raises:
        ScheduleError: WS0249 where a role uses a stage in several places, WS0253 where its threads
            cannot be laid out, WS0254 where named barriers run out.
    """
    handed = handed_out(fusion.operations, buffers, roles.names)
    channels = Channels(fusion, buffers, roles)
    skips = Skips(buffers, channels, fusion.operations)
    siblings = siblings_of(buffers, roles)
    found: list[Branch] = []
    for name in roles.names:
        operations = in_order_of_use(roles, name)
        groups = channels.groups_along(name)
        threads = find_role_threads(operations, buffers.threads, buffers.domains, groups)
        leaves = Emitter(buffers.in_role(threads), vectors)
        nests = Nests(
            buffers.domains, threads, leaves, channels, skips, siblings, f"{name}_i", handed
        )
        body = nests.build(operations)
        agent = agent_of(name, operations, threads, body)
        found.append(Branch(agent, body))
        for section in (s for s in walk(body) if isinstance(s, Section)):
            buffers.note(_order(agent, section.pipeline))
    if handed is not None:
        buffers.note(handed.pipeline(roles.names))
        buffers.made.shared[NAME] = handed.buffer
        buffers.made.workspaces[counter().name] = counter()
        buffers.made.limits[handed.count] = MOST
        found.append(handed.branch())
    found = with_rows_ahead(found, buffers.threads.stream, buffers)
    _check_turns(found)
    decided = () if buffers.threads.stream is None else buffers.threads.stream.decided()
    return (*decided, *laid_out(found, limits))


def _order(agent: Agent, name: str) -> Pipeline:
    """The pipeline by which the groups of a role follow each other."""
    groups = Groups(agent.groups, roles=(agent.name,))
    return Pipeline(
        name=name,
        stages=agent.groups,
        by=By.NOTHING,
        producer=agent.name,
        consumers=(agent.name,),
        groups=groups,
    )


def _check_turns(found: Sequence[Branch]) -> None:
    """Each role fills, or uses, a stage in one place of its body."""
    for branch in found:
        seen: set[str] = set()
        for statement in walk(branch.body):
            if not isinstance(statement, OneStage):
                continue
            for name in statement.pipelines:
                if name in seen:
                    raise ScheduleError(
                        f"role `{branch.agent.name}` comes by the stages of {name} in loops that "
                        "follow each other: the first would use up what the second waits for",
                        code="WS0249",
                        remedy=f"inline what reads {name} so that one loop does, or load it twice",
                    )
                seen.add(name)
