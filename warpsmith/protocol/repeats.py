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
from warpsmith.protocol.states import PENDING, AgentState, Phase

LEAST = 600
"""Steps of all agents below which looking for repeats costs more than they save."""

PATIENCE = 48
"""Descriptions of states that are made before looking is given up, without a jump."""


_Waits = tuple[Step | None, ...]


@dataclass(slots=True)
class Repeats:
    """What a run remembers of its states.

    Attributes:
        jumped: steps that were not taken, of all agents.
    """

    jumped: int = 0
    _seen: dict[_Waits, list[_Mark]] = field(default_factory=dict)
    _met: set[_Waits] = field(default_factory=set)
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
            description(machine),
            tuple(agent.at for agent in agents),
            tuple(barrier.done for barrier in machine.barriers),
        )
        marks = self._seen.setdefault(waits, [])
        best, times = None, 0
        for old in marks:
            if old.description == mark.description:
                found = _repeats(agents, old.places)
                gain = found * sum(b - a for a, b in zip(old.places, mark.places, strict=True))
                if gain > times:
                    best, times = old, gain
        marks.append(mark)
        if best is not None:
            self._jump(machine, best, mark)

    def _jump(self, machine: Machine, old: _Mark, new: _Mark) -> None:
        times = _repeats(machine.agents, old.places)
        for agent, before, now in zip(machine.agents, old.places, new.places, strict=True):
            agent.at += times * (now - before)
            self.jumped += times * (now - before)
        for barrier, before, now in zip(machine.barriers, old.phases, new.phases, strict=True):
            barrier.done += times * (now - before)
        self._tried = 0


@dataclass(frozen=True, slots=True)
class _Mark:
    """A state: what it is like, and where agents and barriers stood."""

    description: tuple[object, ...]
    places: tuple[int, ...]
    phases: tuple[int, ...]


def _repeats(agents: list[AgentState], before: tuple[int, ...]) -> int:
    """How often all agents go on as they did since they stood at these steps."""
    least: int | None = None
    for agent, start in zip(agents, before, strict=True):
        period = agent.at - start
        if not period:
            continue
        steps, times = agent.steps, 0
        pattern = steps[start : agent.at]
        end = agent.at
        while steps[end : end + period] == pattern:
            end += period
            times += 1
        if times and (end >= agent.end or steps[end] != pattern[0]):
            times -= 1
        least = times if least is None else min(least, times)
        if not least:
            return 0
    return least or 0


def description(machine: Machine) -> tuple[object, ...]:
    """The state of a machine, in which stamps are replaced by their rank among their agent's."""
    shape: list[object] = []
    stamps: list[tuple[int, int]] = []

    def clock(values: list[int]) -> None:
        shape.append(len(values))
        stamps.extend(enumerate(values))

    def stamped(values: dict[int, int]) -> None:
        for agent in sorted(values):
            shape.append((agent, values[agent] == PENDING))
            stamps.append((agent, values[agent]))
        shape.append(None)

    def phase(of: Phase) -> None:
        shape.append((of.arrived, of.expected, of.copied))
        clock(of.clock)
        for each in (of.arrivals, of.announced, of.seen, of.waits):
            stamped(each)

    phases: dict[int, int] = {}
    for barrier in machine.barriers:
        shape.append((barrier.alive, barrier.done & 1, barrier.begun[0]))
        stamps.append(barrier.begun)
        for kept in (barrier.older, barrier.previous, barrier.current):
            phases[id(kept)] = len(phases)
            phase(kept)
        current = barrier.current
        shape.extend((a, n == machine.agents[a].learned) for a, n in sorted(current.joined.items()))
    for place in machine.places:
        shape.append((place.filled, place.filler, place.filling[0]))
        if place.fill is None:
            shape.append(None)
        elif id(place.fill) in phases:
            shape.append(phases[id(place.fill)])
        else:
            phase(place.fill)
        for each in (place.reads, place.writes, place.stores, place.fences):
            stamped(each)
        shape.append(tuple(sorted(place.copying.items())))
        shape.append(tuple(sorted(place.storing.items())))
    for agent in machine.agents:
        clock(agent.clock)
        clock(agent.fenced)
        shape.append(tuple(sorted(agent.unfenced)))
        shape.append(tuple(map(tuple, agent.open)))
        shape.append(tuple(map(tuple, agent.groups)))
    shape.extend(tuple(sorted(met)) for met in machine.met)
    return (tuple(shape), _ranks(stamps, len(machine.agents)))


def _ranks(stamps: list[tuple[int, int]], agents: int) -> tuple[int, ...]:
    values: list[set[int]] = [set() for _ in range(agents)]
    for agent, stamp in stamps:
        values[agent].add(stamp)
    ranks = [{v: n for n, v in enumerate(sorted(each))} for each in values]
    return tuple([ranks[agent][stamp] for agent, stamp in stamps])
