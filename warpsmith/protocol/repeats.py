"""Long runs are cut short where their state repeats.

The machine's next state depends on nothing but its state and the steps that follow. Of the stamps
in a state only the order matters, actor by actor: rules compare stamps of one actor, and new ones
are larger than all before. So a state is described by the places of its stamps in that order. If
the description of a state is that of an earlier one, between which actor a took d(a) steps, and the
lists of all actors go on for r times d(a) steps as they did between the two, then the machine would
go through the same states r times more, and break no rule that it has not broken. It jumps.
"""

from __future__ import annotations

from dataclasses import field

from warpsmith.protocol.descriptions import Description, description
from warpsmith.protocol.machine import Machine
from warpsmith.protocol.skeleton import Step
from warpsmith.protocol.states import ActorState
from warpsmith.values import dataclass

LEAST = 600
"""Steps of all actors below which looking for repeats costs more than they save."""

PATIENCE = 48
"""Descriptions of states that are made before looking is given up, without a jump."""

SPAN = 8
"""Rounds until another state than the first one is waited for to come again; then twice as many."""

CALM = 2
"""Rounds after a jump before a state is described that is not known: its loop is about to end."""

PROBES = 128
"""Steps of a period that are compared before the others are."""

_Waits = tuple[Step | None, ...]

Cycles = dict[_Waits, list["_Cycle"]]
"""Those of one run serve another one, if only the lists of steps differ between the skeletons."""


@dataclass(slots=True)
class Repeats:
    """What a run remembers of its states.

    To describe a state costs more than to go on to the next one. So one state is described, and
    then only those in which actors wait as they did in it, or where a cycle is known to begin.

    Attributes:
        cycles: that are known, by what actors wait for where they begin.
        jumped: steps that were not taken, of all actors.
    """

    cycles: Cycles = field(default_factory=dict)
    jumped: int = 0
    _seen: dict[_Waits, list[_Mark]] = field(default_factory=dict)
    _met: set[_Waits] = field(default_factory=set)
    _since: list[_Mark] = field(default_factory=list)
    _tried: int = 0
    _rounds: int = 0
    _anchor: _Waits = ()
    _until: int = 0
    _span: int = SPAN

    def look(self, machine: Machine) -> None:
        """Jump, if the state after this round has been met before."""
        if self._tried > PATIENCE:
            return
        actors = machine.actors
        waits = tuple([a.steps[a.at] if a.at < a.end else None for a in actors])
        if not self._worth(waits):
            return
        self._tried += 1
        mark = _Mark(
            waits,
            description(machine),
            tuple([actor.at for actor in actors]),
            tuple([barrier.done for barrier in machine.barriers]),
        )
        self._since.append(mark)
        best, times = self._best(actors, mark)
        self._seen.setdefault(waits, []).append(mark)
        if best is not None:
            self._jump(machine, best, times)

    def _worth(self, waits: _Waits) -> bool:
        """Whether a state in which actors wait like this is to be described."""
        self._rounds += 1
        if waits not in self._met:
            self._met.add(waits)
            return False
        if waits == self._anchor or waits in self.cycles:
            return True
        if self._rounds < self._until:
            return False
        self._anchor, self._until = waits, self._rounds + self._span
        self._span *= 2
        return True

    def _best(self, actors: list[ActorState], mark: _Mark) -> tuple[_Cycle | None, int]:
        """The cycle by which most steps can be jumped over, and how often."""
        start: _Mark | None = None
        times, gain = 0, 0
        for old in self._seen.get(mark.waits, ()):
            if old.description == mark.description:
                found = _repeats(actors, old.places)
                steps = found * (sum(mark.places) - sum(old.places))
                if steps > gain:
                    start, times, gain = old, found, steps
        if start is not None:
            return self._found(actors, start, mark), times
        for cycle in self.cycles.get(mark.waits, ()):
            if cycle.description == mark.description:
                times = cycle.times(actors)
                if times:
                    return cycle, times
        return None, 0

    def _found(self, actors: list[ActorState], start: _Mark, end: _Mark) -> _Cycle:
        """A new cycle, remembered for each state in it that was described."""
        phases = tuple(b - a for a, b in zip(start.phases, end.phases, strict=True))
        inside = self._since[:-1]
        inside = inside[inside.index(start) :] if start in inside else [start]
        cycles = []
        for mark in inside:
            patterns = tuple(
                actor.steps[at:after] + actor.steps[before:at]
                for actor, before, at, after in zip(
                    actors, start.places, mark.places, end.places, strict=True
                )
            )
            cycles.append(_Cycle(mark.description, patterns, phases))
            self.cycles.setdefault(mark.waits, []).append(cycles[-1])
        return cycles[0]

    def _jump(self, machine: Machine, cycle: _Cycle, times: int) -> None:
        for actor, pattern in zip(machine.actors, cycle.patterns, strict=True):
            actor.at += times * len(pattern)
            self.jumped += times * len(pattern)
        for barrier, phases in zip(machine.barriers, cycle.phases, strict=True):
            barrier.done += times * phases
        self._tried, self._until, self._span = 0, self._rounds + CALM, SPAN
        self._since.clear()


@dataclass(frozen=True, slots=True, eq=False)
class _Mark:
    """A state: what it is like, and where actors and barriers stood."""

    waits: _Waits
    description: Description
    places: tuple[int, ...]
    phases: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Cycle:
    """From a state of this description, steps that lead to one of the same description.

    Attributes:
        patterns: steps of each actor.
        phases: that end meanwhile, of each barrier.
    """

    description: Description
    patterns: tuple[list[Step], ...]
    phases: tuple[int, ...]

    def times(self, actors: list[ActorState]) -> int:
        """How often all actors can repeat from where they stand."""
        least: int | None = None
        for actor, pattern in zip(actors, self.patterns, strict=True):
            if pattern:
                most = (actor.end - actor.at) // len(pattern)
                least = _times(actor, pattern, 0, len(pattern), _lesser(most, least))
                if not least:
                    return 0
        return least or 0


def _repeats(actors: list[ActorState], before: tuple[int, ...]) -> int:
    """How often all actors go on as they did since they stood at these steps."""
    least: int | None = None
    for actor, start in zip(actors, before, strict=True):
        period = actor.at - start
        if period:
            most = (actor.end - actor.at) // period
            least = _times(actor, actor.steps, start, actor.at, _lesser(most, least))
            if not least:
                return 0
    return least or 0


def _lesser(most: int, least: int | None) -> int:
    return most if least is None else min(most, least)


def _times(actor: ActorState, steps: list[Step], start: int, end: int, most: int) -> int:
    """How often an actor takes those steps next, so that the first of them follows, too.

    Args:
        steps, start, end: a list, and the part of it that is meant.
        most: times that are counted.
    """
    period, ahead, at = end - start, actor.steps, actor.at
    stride = period // PROBES + 1
    if not most or steps[start:end:stride] != ahead[at : at + period : stride]:
        return 0
    pattern = steps[start:end]
    times = 0
    while times < most and ahead[at : at + period] == pattern:
        at += period
        times += 1
    if times and (at >= actor.end or ahead[at] != pattern[0]):
        times -= 1
    return times
