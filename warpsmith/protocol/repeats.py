"""Long runs are cut short where their state repeats.

The machine's next state depends on nothing but its state and the steps that follow. Of the stamps
in a state only the order matters, agent by agent: rules compare stamps of one agent, and new ones
are larger than all before. So a state is described by the places of its stamps in that order. If
the description of a state is that of an earlier one, between which agent a took d(a) steps, and the
lists of all agents go on for r times d(a) steps as they did between the two, then the machine would
go through the same states r times more, and break no rule that it has not broken. It jumps.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from warpsmith.protocol.machine import Machine
from warpsmith.protocol.skeleton import Step
from warpsmith.protocol.states import (
    PENDING,
    AgentState,
    BarrierState,
    Clock,
    Phase,
    PlaceState,
)

LEAST = 600
"""Steps of all agents below which looking for repeats costs more than they save."""

PATIENCE = 48
"""Descriptions of states that are made before looking is given up, without a jump."""

PROBES = 128
"""Steps of a period that are compared before the others are."""

_BASE = PENDING << 1
"""More than any stamp."""

_Waits = tuple[Step | None, ...]


@dataclass(slots=True)
class Repeats:
    """What a run remembers of its states.

    Attributes:
        jumped: steps that were not taken, of all agents.
    """

    jumped: int = 0
    _seen: dict[_Waits, list[_Mark]] = field(default_factory=dict)
    _cycles: dict[_Waits, list[_Cycle]] = field(default_factory=dict)
    _met: set[_Waits] = field(default_factory=set)
    _since: list[_Mark] = field(default_factory=list)
    _tried: int = 0

    def look(self, machine: Machine) -> None:
        """Jump, if the state after this round has been met before."""
        if self._tried > PATIENCE:
            return
        agents = machine.agents
        waits = tuple([a.steps[a.at] if a.at < a.end else None for a in agents])
        if waits not in self._met:
            self._met.add(waits)
            return
        self._tried += 1
        mark = _Mark(
            waits,
            description(machine),
            tuple([agent.at for agent in agents]),
            tuple([barrier.done for barrier in machine.barriers]),
        )
        self._since.append(mark)
        best, times = self._best(agents, mark)
        self._seen.setdefault(waits, []).append(mark)
        if best is not None:
            self._jump(machine, best, times)

    def _best(self, agents: list[AgentState], mark: _Mark) -> tuple[_Cycle | None, int]:
        """The cycle by which most steps can be jumped over, and how often."""
        start: _Mark | None = None
        times, gain = 0, 0
        for old in self._seen.get(mark.waits, ()):
            if old.description == mark.description:
                found = _repeats(agents, old.places)
                steps = found * (sum(mark.places) - sum(old.places))
                if steps > gain:
                    start, times, gain = old, found, steps
        if start is not None:
            return self._found(agents, start, mark), times
        for cycle in self._cycles.get(mark.waits, ()):
            if cycle.description == mark.description:
                times = cycle.times(agents)
                if times:
                    return cycle, times
        return None, 0

    def _found(self, agents: list[AgentState], start: _Mark, end: _Mark) -> _Cycle:
        """A new cycle, remembered for each state in it that was described."""
        phases = tuple(b - a for a, b in zip(start.phases, end.phases, strict=True))
        inside = self._since[:-1]
        inside = inside[inside.index(start) :] if start in inside else [start]
        cycles = []
        for mark in inside:
            patterns = tuple(
                agent.steps[at:after] + agent.steps[before:at]
                for agent, before, at, after in zip(
                    agents, start.places, mark.places, end.places, strict=True
                )
            )
            cycles.append(_Cycle(mark.description, patterns, phases))
            self._cycles.setdefault(mark.waits, []).append(cycles[-1])
        return cycles[0]

    def _jump(self, machine: Machine, cycle: _Cycle, times: int) -> None:
        for agent, pattern in zip(machine.agents, cycle.patterns, strict=True):
            agent.at += times * len(pattern)
            self.jumped += times * len(pattern)
        for barrier, phases in zip(machine.barriers, cycle.phases, strict=True):
            barrier.done += times * phases
        self._tried = 0
        self._since.clear()


@dataclass(frozen=True, slots=True, eq=False)
class _Mark:
    """A state: what it is like, and where agents and barriers stood."""

    waits: _Waits
    description: tuple[object, ...]
    places: tuple[int, ...]
    phases: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Cycle:
    """From a state of this description, steps that lead to one of the same description.

    Attributes:
        patterns: steps of each agent.
        phases: that end meanwhile, of each barrier.
    """

    description: tuple[object, ...]
    patterns: tuple[list[Step], ...]
    phases: tuple[int, ...]

    def times(self, agents: list[AgentState]) -> int:
        """How often all agents can go round from where they stand."""
        least: int | None = None
        for agent, pattern in zip(agents, self.patterns, strict=True):
            if pattern:
                most = (agent.end - agent.at) // len(pattern)
                least = _times(agent, pattern, 0, len(pattern), _lesser(most, least))
                if not least:
                    return 0
        return least or 0


def _repeats(agents: list[AgentState], before: tuple[int, ...]) -> int:
    """How often all agents go on as they did since they stood at these steps."""
    least: int | None = None
    for agent, start in zip(agents, before, strict=True):
        period = agent.at - start
        if period:
            most = (agent.end - agent.at) // period
            least = _times(agent, agent.steps, start, agent.at, _lesser(most, least))
            if not least:
                return 0
    return least or 0


def _lesser(most: int, least: int | None) -> int:
    return most if least is None else min(most, least)


def _times(agent: AgentState, steps: list[Step], start: int, end: int, most: int) -> int:
    """How often an agent takes those steps next, so that the first of them follows, too.

    Args:
        steps, start, end: a list, and the part of it that is meant.
        most: times that are counted.
    """
    period, ahead, at = end - start, agent.steps, agent.at
    stride = period // PROBES + 1
    if not most or steps[start:end:stride] != ahead[at : at + period : stride]:
        return 0
    pattern = steps[start:end]
    times = 0
    while times < most and ahead[at : at + period] == pattern:
        at += period
        times += 1
    if times and (at >= agent.end or ahead[at] != pattern[0]):
        times -= 1
    return times


def description(machine: Machine) -> tuple[object, ...]:
    """The state of a machine, in which stamps are replaced by their rank among their agent's.

    Two states of one description differ at most in what no rule looks at.
    """
    writer = _Writer()
    numbers: dict[int, int] = {}
    for barrier in machine.barriers:
        for phase in (barrier.older, barrier.previous, barrier.current):
            numbers[id(phase)] = len(numbers)
        writer.barrier(barrier, machine.agents)
    for place in machine.places:
        writer.place(place, numbers)
    for agent in machine.agents:
        writer.agent(agent)
    return writer.described([frozenset(met) for met in machine.met])


class _Writer:
    """Collects what is compared as it is, and stamps, each with its agent."""

    def __init__(self) -> None:
        self._shape: list[object] = []
        self._agents: list[int] = []
        self._stamps: list[int] = []

    def described(self, *rest: object) -> tuple[object, ...]:
        """All that was collected, and the rest."""
        keys = [agent * _BASE + s for agent, s in zip(self._agents, self._stamps, strict=True)]
        ranks = {key: rank for rank, key in enumerate(sorted(set(keys)))}
        return (self._shape, self._agents, list(map(ranks.__getitem__, keys)), rest)

    def barrier(self, barrier: BarrierState, agents: list[AgentState]) -> None:
        begun, stamp = barrier.begun
        previous, current = barrier.previous, barrier.current
        self._shape.append((barrier.alive, barrier.done & 1))
        self._stamped({begun: stamp})
        self._over(barrier.older)
        self._over(previous)
        self._stamped(previous.waits)
        self._clock(previous.clock)
        self._shape.append((current.arrived, current.expected, current.copied))
        self._stamped(current.arrivals)
        self._stamped(current.announced)
        self._clock(current.clock)
        if current.joined:
            self._shape.append([(a, n == agents[a].learned) for a, n in current.joined.items()])

    def place(self, place: PlaceState, numbers: dict[int, int]) -> None:
        """A place, given the numbers of phases that barriers still have."""
        fill = place.fill
        number = None if fill is None else numbers.get(id(fill), -1)
        self._shape.append((place.filled, place.filler, place.filling[0], number))
        if fill is not None and number == -1:
            self._over(fill)
        self._stamped(place.reads)
        self._stamped(place.fences)
        for used in (place.writes, place.stores, place.products):
            self._stamped(used)
            if PENDING in used.values():
                self._shape.append([stamp == PENDING for stamp in used.values()])
        under_way = (place.copying, place.storing, place.multiplying)
        if any(under_way):
            self._shape.append([tuple(each.items()) for each in under_way])

    def agent(self, agent: AgentState) -> None:
        self._clock(agent.clock)
        self._clock(agent.fenced)
        self._shape.append(frozenset(agent.unfenced))
        self._shape.append([tuple(places) for places in agent.open])
        self._shape.append([tuple(groups) for groups in agent.groups])

    def _over(self, phase: Phase) -> None:
        """What tells whether a phase is known to be over."""
        self._shape.append(phase.expected > 0 or phase.copied > 0)
        self._stamped(phase.arrivals)
        self._stamped(phase.seen)

    def _clock(self, clock: Clock) -> None:
        self._shape.append(len(clock))
        self._agents += range(len(clock))
        self._stamps += clock

    def _stamped(self, stamps: dict[int, int]) -> None:
        self._shape.append(len(stamps))
        if stamps:
            self._agents += stamps
            self._stamps += stamps.values()
