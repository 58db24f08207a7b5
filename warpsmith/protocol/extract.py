"""The skeleton of a kernel's block, or of its cluster, for given sizes and a block of the grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import takewhile

from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES
from warpsmith.ir.scalar import evaluate
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.elected import ELECTED_WARP
from warpsmith.kernel.kernel import Kernel, layout_of
from warpsmith.kernel.nodes import Buffer, Statement
from warpsmith.kernel.reductions import Reduce, ScanElements
from warpsmith.kernel.rings import ELECTED, InitBarriers
from warpsmith.kernel.scratch import block_reduce_scratch, block_scan_scratch
from warpsmith.kernel.traversal import barriers, walk
from warpsmith.protocol.accesses import Division, divisions
from warpsmith.protocol.alike import Standing, standing
from warpsmith.protocol.bodies import Body
from warpsmith.protocol.clusters import runs_together
from warpsmith.protocol.numbers import Prepared, Runner, Shared
from warpsmith.protocol.rules import Rule, broken
from warpsmith.protocol.scalars import Scope
from warpsmith.protocol.sends import Sends
from warpsmith.protocol.skeleton import Actor, BarrierStage, Meeting, Place, Skeleton, Step
from warpsmith.protocol.steps import LANES
from warpsmith.protocol.teams import Extents, Team, evaluated, labels, listed, sent_by, teams_of
from warpsmith.protocol.walks import MOST_STEPS, TooLongError, walked
from warpsmith.targets.family import WARP
from warpsmith.values import dataclass


def skeleton_of(
    kernel: Kernel, known: Mapping[str, int], prepared: Prepared | None = None
) -> Skeleton:
    """What is left of a kernel's block when only its synchronization is looked at.

    Where blocks of a cluster reach each other, it is that of all blocks of its cluster.

    Args:
        known: as `launch_values` gives.
        prepared: of this kernel, if more blocks of it are looked at.

    Raises:
        Broken: synchronization that only part of a warp or group would reach.
    """
    prepared = prepared or Prepared(divisions(kernel, known), frozenset(known))
    if not runs_together(kernel):
        return _Extraction(kernel, known, prepared).skeleton()
    teams = teams_of(kernel, known)
    for team in teams:
        if team.name not in prepared.sent:
            prepared.sent[team.name] = sent_by(kernel, known, team)
    sent = [
        {rank: amount for (number, rank), amount in amounts.items() if number == which}
        for team in teams
        for by_warp in prepared.sent[team.name]
        for amounts in by_warp.values()
        for which in {number for number, _ in amounts}
    ]
    found = standing(kernel, known, prepared.synchronizing, sent)
    blocks: list[Skeleton] = []
    before = 0
    for place, block in enumerate(found):
        own = {**known, **block.known}
        blocks.append(_Extraction(kernel, own, prepared, place, found, before).skeleton())
        before += len(blocks[-1].actors)
        if blocks[-1].steps * len(found) > MOST_STEPS:
            raise TooLongError
    return _joined(blocks)


def _joined(blocks: Sequence[Skeleton]) -> Skeleton:
    """The skeleton of all blocks of a cluster, with their own meeting behind the others."""
    actors = tuple(actor for block in blocks for actor in block.actors)
    meetings = tuple(meeting for block in blocks for meeting in block.meetings)
    return Skeleton(
        actors,
        tuple(each for block in blocks for each in block.barriers),
        tuple(place for block in blocks for place in block.places),
        (*meetings, Meeting("the barrier of the whole cluster", tuple(range(len(actors))))),
    )


@dataclass(slots=True)
class _Extraction:
    """The skeleton of one block.

    Attributes:
        place: among the blocks of a cluster that are looked at `together`, each with those that it
            stands for; numbers of barriers, places and meetings go on from those of the blocks
            before.
        before: actors of these.
    """

    kernel: Kernel
    known: Mapping[str, int]
    prepared: Prepared
    place: int = 0
    together: tuple[Standing, ...] = ()
    before: int = 0
    actors: list[Actor] = field(default_factory=list)

    @property
    def rank(self) -> int:
        return self.together[self.place].rank if self.together else 0

    def skeleton(self) -> Skeleton:
        stages, found = self._barriers()
        teams = teams_of(self.kernel, self.known)
        roles = {team.agent.name: None for team in teams if team.agent and team.agent.common}
        places = self._places(self.prepared.divisions)
        meetings = 1 + len(teams) + len(roles)
        block = self.place * meetings
        last = len(self.together) * meetings if self.together else None
        shared = Shared(
            stages,
            self.prepared,
            self.place,
            len(found),
            len(places),
            {each.rank: place for place, each in enumerate(self.together)} or {0: 0},
            len(self.together[self.place].ranks) if self.together else 1,
            last,
        )
        members: list[tuple[int, ...]] = []
        for number, team in enumerate(teams):
            before = len(self.actors)
            common = 0
            if team.agent is not None and team.agent.name in roles:
                common = block + 1 + len(teams) + list(roles).index(team.agent.name)
            self._team(team, (block, block + number + 1, common), shared)
            members.append(tuple(range(self.before + before, self.before + len(self.actors))))
        of = f" of block {self.rank}" if self.together else ""
        together = [
            Meeting(f"the barrier of all of {name}{of}", self._agents_of(name)) for name in roles
        ]
        numbers = range(self.before, self.before + len(self.actors))
        everyone = Meeting(f"the barrier of the whole block{of}", tuple(numbers))
        groups = [
            Meeting(f"the barrier of {team.name}{of}", ids)
            for team, ids in zip(teams, members, strict=True)
        ]
        return Skeleton(tuple(self.actors), found, places, (everyone, *groups, *together))

    def _agents_of(self, role: str) -> tuple[int, ...]:
        return tuple(self.before + n for n, actor in enumerate(self.actors) if actor.role == role)

    def _team(self, team: Team, meetings: tuple[int, int, int], shared: Shared) -> None:
        """A team's actors: its first warp, and of those that send alike the first and the others.

        Args:
            meetings: numbers of those of the block, of the team, and of all groups of its role.
        """
        first = len(self.actors)
        sent = self.prepared.sent.get(team.name, ({},) * team.warps)
        last: Sends | None = None
        steps: list[Step] = []
        for number, (label, weight, sends) in enumerate(labels(team, sent)):
            if number < 2 or sends is not last:
                steps = self._steps(team, meetings, shared, first + number, number == 0, sends)
            last = sends
            role = team.agent.name if team.agent else ""
            name = f"{team.name}, {label}" if label else team.name
            if self.together:
                ranks = self.together[self.place].ranks
                name = f"{listed('block', ranks)}: {name}"
            self.actors.append(Actor(name, role, steps, weight, self.rank))

    def _steps(
        self,
        team: Team,
        meetings: tuple[int, int, int],
        shared: Shared,
        number: int,
        leads: bool,
        sends: Sends,
    ) -> list[Step]:
        agent, block = team.agent, self.kernel.launch.block
        scope = Scope({**self.known, **_elected(number == 0)})
        body = self.kernel.body
        before = tuple(takewhile(lambda s: not isinstance(s, Branch), body))
        behind = tuple(s for s in body[len(before) :] if not isinstance(s, Branch))
        extents = evaluated(block, self.known)
        start = Runner(
            role="",
            group=0,
            threads=LANES,
            elected=number == 0,
            meeting=meetings[0],
            reduces=_meeting_reductions(before, extents),
            sends=sends,
        )
        if agent is None:
            scope = Scope({**scope.known, **_single_axes(extents)})
        outside = Body(shared, scope, start)
        nodes = outside.nodes(before)
        if agent is not None:
            alone = agent.elected
            axes = _single_axes(team.extents)
            if agent.groups_along is not None:
                axes[agent.groups_along.name] = team.group
            known = {**self.known, **axes, **_elected(leads or alone)}
            scope = Scope(known, scope.cursors, scope.lets)
            runner = Runner(
                role=agent.name,
                group=team.group,
                threads=1 if alone else LANES,
                elected=leads,
                meeting=meetings[1] if agent.barrier and not alone else None,
                reduces=_meeting_reductions(team.body, team.extents),
                common=meetings[2],
                across=frozenset(
                    id(s)
                    for s in walk(team.body)
                    if isinstance(s, Reduce) and agent.common and agent.groups_along in s.block_axes
                ),
                sends=sends,
            )
            nodes += Body(shared, scope, runner).nodes(team.body)
        return walked([*nodes, *outside.nodes(behind)])

    def _barriers(self) -> tuple[dict[str, tuple[int, int]], tuple[BarrierStage, ...]]:
        """Numbers of the first stages of barriers by name, and all stages with their counts."""
        values = dict(self.known)
        warps = -(-evaluate(integers.mul(*self.kernel.launch.block), values) // WARP)
        counts: dict[str, tuple[Buffer, int]] = {}
        for statement in walk(self.kernel.body):
            if isinstance(statement, InitBarriers):
                for buffer, arrivals in statement.arrivals:
                    number = warps if arrivals is None else evaluate(arrivals, values)
                    counts[buffer.name] = (buffer, number)
            for buffer in barriers(statement):
                counts.setdefault(buffer.name, (buffer, 1))
        stages: dict[str, tuple[int, int]] = {}
        found: list[BarrierStage] = []
        for name, (buffer, count) in counts.items():
            length = evaluate(buffer.size, values)
            stages[name] = (len(found), length)
            found += [
                BarrierStage(name, stage, count, begun=False, block=self.rank)
                for stage in range(length)
            ]
            if not 1 <= count < 1 << 20:
                broken(
                    Rule.ARRIVALS,
                    f"{name} counts {count} arrivals a phase",
                    "an mbarrier counts 1 to 1048575",
                    buffer=name,
                )
        return stages, tuple(found)

    def _places(self, found: dict[str, Division]) -> tuple[Place, ...]:
        """All places of the block, in the order of their numbers, with those that share bytes."""
        spans: list[tuple[int, int, str]] = []
        given = dict(self.kernel.offsets)
        starts = layout_of(self.kernel).starts(self.known)
        sizes = {buffer.name: buffer.dtype.size for buffer in self.kernel.shared}
        for name, division in found.items():
            step = division.elements * sizes.get(name, 1)
            for stage in range(division.stages):
                for _ in range(division.parts * division.shares):
                    start = starts.get(name, 0) + stage * step
                    spans.append((start, start + step, name if name in given else ""))
        by_tma = [d.by_tma for d in found.values() for _ in range(d.places)]
        first = self.place * len(spans)
        result: list[Place] = []
        for name, division in found.items():
            for number in range(division.places):
                start, end, placed = spans[len(result)]
                overlaps = tuple(
                    first + other
                    for other, (low, high, owner) in enumerate(spans)
                    if placed and owner not in ("", placed) and low < end and start < high
                )
                stage = number // (division.parts * division.shares)
                reached = division.by_tma or any(by_tma[other - first] for other in overlaps)
                place = Place(name, stage, division.private, reached, overlaps, self.rank)
                result.append(place)
        return tuple(result)


def _single_axes(extents: Extents) -> dict[str, int]:
    """The index along axes of one thread."""
    return {kind.name: 0 for kind, extent in zip(BLOCK_TYPES, extents, strict=True) if extent == 1}


def _elected(here: bool) -> dict[str, int]:
    """Whether the elected thread is one of an actor's."""
    return {ELECTED.name: int(here), ELECTED_WARP.name: int(here)}


def _meeting_reductions(statements: tuple[Statement, ...], extents: Extents) -> frozenset[int]:
    """Reductions and scans, by identity, that go through shared memory, between two meetings."""
    found = set()
    for statement in walk(statements):
        if isinstance(statement, ScanElements) and any(
            block_scan_scratch(BLOCK_TYPES.index(axis), extents) for axis in statement.block_axes
        ):
            found.add(id(statement))
        if isinstance(statement, Reduce) and not statement.lanes:
            reduced = [kind in statement.block_axes for kind in BLOCK_TYPES]
            x, y, z = reduced
            needs = block_reduce_scratch(statement.elements, (x, y, z), extents)
            if needs or statement.grid_axes:
                found.add(id(statement))
    return frozenset(found)
