"""What roles have of a block: warps, named barriers and registers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NoReturn

from warpsmith.errors import ScheduleError
from warpsmith.ir.scalar import evaluate
from warpsmith.kernel.agents import Agent, Branch
from warpsmith.kernel.clusters import SynchronizeCluster
from warpsmith.kernel.kernel import Kernel
from warpsmith.protocol import registers
from warpsmith.protocol.choices import skip_alike
from warpsmith.protocol.clusters import check_clusters
from warpsmith.protocol.rules import Rule, broken
from warpsmith.protocol.succession import await_first
from warpsmith.targets.family import WARP, WARP_GROUP, Limits
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """Warps of a role: from `first` to before `end`; `threads` of all of them."""

    agent: Agent
    first: int
    end: int
    threads: int

    @property
    def warp_groups(self) -> range:
        """Numbers of the warp groups that have some of its warps."""
        return range(self.first // WARP_GROUP, -(-self.end // WARP_GROUP))


def check_resources(kernel: Kernel, known: Mapping[str, int], limits: Limits) -> None:
    """Check what needs no run.

    Raises:
        Broken: roles overlap or leave the block, share a named barrier, or have registers that
            `setmaxnreg` cannot set; or as `check_clusters`, `await_first` and `skip_alike` say.
    """
    check_clusters(kernel)
    await_first(kernel)
    skip_alike(kernel)
    values = dict(known)
    spans = []
    for statement in kernel.body:
        if isinstance(statement, Branch):
            spans.append(_span(statement.agent, values))
        elif spans and not isinstance(statement, SynchronizeCluster):
            _broken(Rule.LAUNCH, "statements follow the bodies of roles", (spans[-1].agent.name,))
    x, y, z = (evaluate(extent, values) for extent in kernel.launch.block)
    threads = x * y * z
    _check_warps(spans, threads)
    _check_named(spans, limits)
    _check_registers(spans, threads, kernel.launch.blocks_per_sm, limits)


def _span(agent: Agent, values: dict[str, int]) -> Span:
    threads = WARP if agent.elected else evaluate(agent.threads, values)
    group = threads // agent.groups
    if agent.groups > 1 and group % WARP:
        _broken(
            Rule.LAUNCH,
            f"a group of {agent.name} has {group} threads",
            (agent.name,),
            "groups that do not meet have whole warps",
        )
    return Span(agent, agent.first_warp, agent.first_warp - (-threads // WARP), threads)


def _check_warps(spans: Sequence[Span], threads: int) -> None:
    for a, b in itertools.pairwise(spans):
        if max(a.first, b.first) < min(a.end, b.end):
            _broken(Rule.LAUNCH, "two roles have warps in common", (a.agent.name, b.agent.name))
    for span in spans:
        if span.first * WARP + span.threads > threads:
            _broken(
                Rule.LAUNCH,
                f"{span.agent.name} has warps {span.first} to {span.end - 1} of a block of "
                f"{threads} threads",
                (span.agent.name,),
            )


def _check_named(spans: Sequence[Span], limits: Limits) -> None:
    """Every group that meets has an id of its own."""
    owners: dict[int, str] = {}
    for span in spans:
        agent = span.agent
        if not agent.barrier:
            continue
        for number in agent.barriers:
            if not 1 <= number < limits.named_barriers:
                _broken(
                    Rule.NAMED,
                    f"{agent.name} has named barrier {number}",
                    (agent.name,),
                    f"ids of groups are 1 to {limits.named_barriers - 1}",
                )
            if number in owners:
                _broken(
                    Rule.NAMED,
                    f"named barrier {number} is that of {owners[number]} and of {agent.name}",
                    (owners[number], agent.name),
                )
            owners[number] = agent.name


def _check_registers(
    spans: Sequence[Span], threads: int, blocks_per_sm: int, limits: Limits
) -> None:
    """Budgets are legal, equal within each warp group, and fit the block."""
    if all(span.agent.registers is None for span in spans):
        return
    if threads % registers.GROUP_THREADS:
        _broken(
            Rule.REGISTERS,
            f"a block of {threads} threads changes its registers",
            tuple(span.agent.name for span in spans),
            f"a block of whole warp groups, of {registers.GROUP_THREADS} threads",
        )
    owners: dict[int, list[Agent]] = {}
    for span in spans:
        for number in span.warp_groups:
            owners.setdefault(number, []).append(span.agent)
    for number, roles in owners.items():
        if len({agent.registers for agent in roles}) > 1:
            each = ", ".join(f"{agent.name} {agent.registers or 'none'}" for agent in roles)
            _broken(
                Rule.REGISTERS,
                f"roles of warp group {number} have different budgets: {each}",
                tuple(agent.name for agent in roles),
                "all four warps of a warp group set the same",
            )
    allotments: list[registers.Allotment] = []
    budgets: list[int | None] = []
    seen: set[tuple[str, ...]] = set()
    for roles in owners.values():
        names = tuple(agent.name for agent in roles)
        if names not in seen:
            seen.add(names)
            groups = sum(tuple(r.name for r in others) == names for others in owners.values())
            size = groups * registers.GROUP_THREADS
            allotments.append(registers.Allotment(roles=names, threads=size))
            budgets.append(roles[0].registers)
    idle = threads - sum(each.threads for each in allotments)
    if idle > 0:
        allotments.append(registers.Allotment(roles=("no role",), threads=idle))
        budgets.append(None)
    block = registers.Block(
        allotments=tuple(allotments), limits=limits, blocks_per_sm=blocks_per_sm
    )
    try:
        registers.check(block, budgets)
    except ScheduleError as error:
        _broken(Rule.REGISTERS, error.message, tuple(span.agent.name for span in spans))


def _broken(rule: Rule, got: str, roles: tuple[str, ...], wanted: str = "") -> NoReturn:
    broken(rule, got, wanted or rule.words, roles=roles)
