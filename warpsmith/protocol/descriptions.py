"""Descriptions of a machine's states, by which it is seen that one comes again.

Stamps grow without end, so a state never comes again as it was. But rules only compare stamps of
one actor. So each is replaced by its rank among all of that actor which the state has. What is not
known to be over ranks above the actor's own clock, which no other stamp of it exceeds.
"""

from __future__ import annotations

from collections import defaultdict

from warpsmith.protocol.machine import Machine
from warpsmith.protocol.states import ActorState, BarrierState, Clock, Phase, PlaceState

Description = tuple[object, ...]
"""Two states whose descriptions are equal differ at most in what no rule looks at."""

_Stamps = dict[int, int]
"""By actor."""


def description(machine: Machine) -> Description:
    """The state of a machine."""
    numbers: dict[Phase, int] = {}
    for barrier in machine.barriers:
        for phase in (barrier.older, barrier.previous, barrier.current):
            numbers[phase] = len(numbers)
    collected = _Collected()
    for barrier in machine.barriers:
        collected.barrier(barrier, machine.actors)
    for place in machine.places:
        collected.place(place, numbers)
    for actor in machine.actors:
        collected.actor(actor)
    return collected.description([frozenset(met) for met in machine.met])


class _Collected:
    """What is compared as it is, and all that has stamps in it."""

    def __init__(self) -> None:
        self._shape: list[object] = []
        self._stamps: list[_Stamps] = []
        self._clocks: list[Clock] = []

    def description(self, met: list[frozenset[int]]) -> Description:
        sizes = [*map(len, self._stamps), *map(len, self._clocks)]
        columns = zip(*filter(None, self._clocks), strict=True)
        own = defaultdict[int, list[int]](list, enumerate(map(list, columns)))
        actors: list[int] = []
        for stamps in filter(None, self._stamps):
            actors += stamps
            for actor, stamp in stamps.items():
                own[actor].append(stamp)
        return met, sizes, actors, list(map(_ranks, own.values())), self._shape

    def barrier(self, barrier: BarrierState, actors: list[ActorState]) -> None:
        older, previous, current = barrier.older, barrier.previous, barrier.current
        begun, stamp = barrier.begun
        joined = [(a, learned == actors[a].learned) for a, learned in current.joined.items()]
        self._shape += (
            barrier.alive,
            barrier.done & 1,
            _has_bytes(older),
            _has_bytes(previous),
            (current.arrived, current.expected, current.copied),
            joined,
        )
        self._stamps += (
            {begun: stamp},
            older.arrivals,
            older.seen,
            previous.arrivals,
            previous.seen,
            previous.waits,
            current.arrivals,
            current.announced,
        )
        self._clocks += (previous.clock, current.clock, previous.heard, current.heard)

    def place(self, place: PlaceState, numbers: dict[Phase, int]) -> None:
        """A place, given the numbers of phases that barriers still have."""
        fill, number = place.fill, None
        if fill is not None:
            number = numbers.get(fill, -1)
            if number == -1:
                self._shape.append(_has_bytes(fill))
                self._stamps += (fill.arrivals, fill.seen)
        self._stamps += (place.reads, place.fences, place.writes, place.stores, place.products)
        self._stamps += (place.past, place.past_fences, place.shown)
        self._shape += (
            (place.filled, place.filler, place.filling[0], number),
            tuple(place.copying.items()),
            tuple(place.storing.items()),
            tuple(place.multiplying.items()),
        )

    def actor(self, actor: ActorState) -> None:
        self._clocks += (actor.clock, actor.fenced, actor.heard)
        self._shape.append(frozenset(actor.unfenced))
        self._shape += map(tuple, actor.open)
        self._shape += map(tuple, actor.groups)


def _ranks(stamps: list[int]) -> list[int]:
    """The places of one actor's stamps in their order."""
    places = {stamp: place for place, stamp in enumerate(sorted(set(stamps)))}
    return list(map(places.__getitem__, stamps))


def _has_bytes(phase: Phase) -> bool:
    """Whether only a wait tells that it is over."""
    return phase.expected > 0 or phase.copied > 0
