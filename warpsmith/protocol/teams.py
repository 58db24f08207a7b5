"""Warps that run one body for themselves, and the few that stand for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warpsmith.ir.domains import GRID_TYPES
from warpsmith.ir.scalar import Expr, evaluate
from warpsmith.kernel.agents import Agent, Branch
from warpsmith.kernel.clusters import RANK
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Let, Statement
from warpsmith.kernel.traversal import walk
from warpsmith.protocol.sends import Senders, Sends, sending
from warpsmith.targets.family import WARP
from warpsmith.values import dataclass

Extents = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Team:
    """Warps that run one body for themselves: a group of a role, or the whole block."""

    agent: Agent | None
    group: int
    body: tuple[Statement, ...]
    warps: int
    extents: Extents

    @property
    def name(self) -> str:
        """In messages."""
        if self.agent is None:
            return "block"
        return self.agent.name if self.agent.groups == 1 else f"{self.agent.name}[{self.group}]"


def teams_of(kernel: Kernel, known: Mapping[str, int]) -> list[Team]:
    """Everybody who runs a body for himself, in the order of warps."""
    values = dict(known)
    if not kernel.branches:
        extents = evaluated(kernel.launch.block, known)
        threads = extents[0] * extents[1] * extents[2]
        return [Team(None, 0, (), -(-threads // WARP), extents)]
    teams = []
    for branch in sorted(kernel.branches, key=lambda b: b.agent.first_warp):
        agent = branch.agent
        extents = evaluated(agent.group_block, known)
        warps = 1 if agent.elected else evaluate(agent.group_warps, values)
        teams += [Team(agent, group, branch.body, warps, extents) for group in range(agent.groups)]
    return teams


def sent_by(kernel: Kernel, known: Mapping[str, int], team: Team) -> tuple[Sends, ...]:
    """What each warp of a team sends to other blocks."""
    body = (*(s for s in kernel.body if not isinstance(s, Branch)), *team.body)
    own = {name: value for name, value in known.items() if name not in _PLACE}
    if team.agent is not None and team.agent.groups_along is not None:
        own[team.agent.groups_along.name] = team.group
    lets = {s.symbol.name: s.value for s in walk(body) if isinstance(s, Let)}
    senders = Senders(team.extents, own, lets, kernel.launch.cluster_blocks)
    found = {id(statement): senders.by_warp(statement) for statement in sending(body)}
    return tuple({key: sent[warp] for key, sent in found.items()} for warp in range(team.warps))


_PLACE = frozenset((RANK, *(kind.name for kind in GRID_TYPES)))
"""What is known of a block's place in its grid."""


def labels(team: Team, sent: Sequence[Sends]) -> list[tuple[str, int, Sends]]:
    """Names of a team's representatives among its warps, how many each stands for, and what it
    sends: the first warp, and of those that send alike another one and the others.
    """
    if team.warps == 1:
        return [("", 1, sent[0])]
    alike: list[list[int]] = []
    for warp in range(1, team.warps):
        known = next((warps for warps in alike if sent[warps[0]] == sent[warp]), None)
        if known is None:
            alike.append([warp])
        else:
            known.append(warp)
    found = [("warp 0", 1, sent[0])]
    for first, *others in alike:
        found.append((f"warp {first}", 1, sent[first]))
        if others:
            found.append((listed("warp", others), len(others), sent[first]))
    return found


def listed(what: str, numbers: Sequence[int]) -> str:
    """`warp 2`, `warps 2 to 7`, `warps 2, 3, 5`."""
    if len(numbers) == 1:
        return f"{what} {numbers[0]}"
    if numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{what}s {numbers[0]} to {numbers[-1]}"
    return f"{what}s {', '.join(map(str, numbers))}"


def evaluated(extents: tuple[Expr, Expr, Expr], known: Mapping[str, int]) -> Extents:
    x, y, z = (evaluate(extent, dict(known)) for extent in extents)
    return x, y, z
