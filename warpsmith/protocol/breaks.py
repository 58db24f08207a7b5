"""What the machine says where a rule is broken."""

from __future__ import annotations

from typing import NoReturn

from warpsmith.protocol.rules import Break, Broken, Rule
from warpsmith.protocol.skeleton import Kind, Skeleton, Step
from warpsmith.protocol.states import ActorState, BarrierState, Clock, PlaceState


class Breaks:
    """The states of a run, and the breaks that can be told of them.

    Attributes:
        met: by meeting, the actors that have come.
    """

    def __init__(self, skeleton: Skeleton) -> None:
        count = len(skeleton.actors)
        self.skeleton = skeleton
        self.actors = [ActorState(a, n, count) for n, a in enumerate(skeleton.actors)]
        self.barriers = [BarrierState(b.count, b.begun) for b in skeleton.barriers]
        self.places = [PlaceState() for _ in skeleton.places]
        self.met: list[set[int]] = [set() for _ in skeleton.meetings]

    def _broken(
        self,
        actor: int,
        rule: Rule,
        got: str,
        wanted: str = "",
        *,
        others: tuple[int, ...] = (),
        barrier: int = -1,
        place: int = -1,
        phase: int | None = None,
        clock: Clock | None = None,
    ) -> NoReturn:
        if clock is None:
            clock = self.actors[actor].clock if actor >= 0 else []
        raise Broken(
            Break(
                rule=rule,
                got=got,
                wanted=wanted,
                actor=actor,
                others=others,
                barrier=barrier,
                place=place,
                phase=phase,
                clock=tuple(clock),
            )
        )

    def _behind(self, number: int, step: Step, barrier: BarrierState) -> NoReturn:
        phase = barrier.done - 1
        self._broken(
            number,
            Rule.BEHIND,
            f"the wait for phase {phase} (parity {step.amount}) may find the barrier still in "
            f"phase {phase - 1}, and passes at once, since phase {phase - 2} had the same parity",
            f"the waiter knows before that phase {phase - 1} is over",
            barrier=step.place,
            phase=phase,
        )

    def _ahead(self, number: int, at: int, barrier: BarrierState, late: int) -> NoReturn:
        phase = barrier.done
        self._broken(
            number,
            Rule.AHEAD,
            f"phase {phase} may end before a waiter has seen that phase {phase - 1} is over",
            "somebody arrives only after that wait",
            others=(late,),
            barrier=at,
            phase=phase,
            clock=barrier.current.clock,
        )

    def _bytes(self, number: int, at: int, why: str = "") -> NoReturn:
        barrier = self.barriers[at]
        phase = barrier.current
        self._broken(
            number,
            Rule.BYTES,
            why or f"phase {barrier.done} announces {phase.expected} bytes, copies {phase.copied}",
            "both are equal",
            barrier=at,
            phase=barrier.done,
            others=tuple(phase.arrivals),
        )

    def _late_copy(self, number: int, step: Step, barrier: BarrierState) -> NoReturn:
        """A copy for which a phase has no room: it is over, as far as its asker knows."""
        phase = barrier.previous
        self._broken(
            number,
            Rule.BYTES,
            f"phase {barrier.done - 1} announces {phase.expected} bytes, and is over when as many "
            f"are there; a copy of {step.amount * self.actors[number].weight} more is asked for",
            "both are equal",
            barrier=step.barrier,
            place=step.place,
            phase=barrier.done - 1,
        )

    def _unfilled(self, number: int, at: int, others: tuple[int, ...] = ()) -> NoReturn:
        place = self.places[at]
        barrier, phase = place.filling if place.fill is not None else (-1, 0)
        if not place.filled:
            got = "it is read before anything fills it"
        elif others:
            got = "it is read before what another wrote must be there"
        else:
            got = f"it is read before the copy of phase {phase} must have landed"
        self._broken(
            number,
            Rule.UNFILLED,
            got,
            "the reader waits for what fills it",
            others=others or ((place.filler,) if place.filler >= 0 else ()),
            barrier=barrier,
            place=at,
            phase=phase if barrier >= 0 else None,
        )

    def _overwritten(
        self, number: int, mine: int, at: int, others: tuple[int, ...], by: str
    ) -> NoReturn:
        self._broken(
            number,
            Rule.OVERWRITTEN,
            f"it is filled again while {by} may still be under way",
            "who fills it waits for all users",
            others=others,
            place=mine if mine == at else at,
        )

    def _unfenced(
        self, number: int, at: int, other: int, what: str, unit: str = "the TMA unit"
    ) -> NoReturn:
        self._broken(
            number,
            Rule.PROXY,
            f"no proxy fence stands between threads and {unit}: a thread {what}",
            f"fence.proxy.async, between the thread's access and that of {unit}",
            others=(other,),
            place=at,
        )

    def _not_alive(self, number: int, at: int) -> NoReturn:
        barrier = self.barriers[at]
        got = "it need not be initialized yet" if barrier.alive else "it is not initialized"
        self._broken(
            number,
            Rule.LIFETIME,
            f"{got} when it is used",
            "all meet after the initialization, before the first use",
            barrier=at,
            phase=barrier.done,
        )

    def _stuck(self, waiting: list[int]) -> NoReturn:
        """Nobody can go on. Named are bytes that do not add up; else a wait that nobody ends."""
        waits = {n: self.actors[n].steps[self.actors[n].at] for n in waiting}
        for step in waits.values():
            if step.kind != Kind.AWAIT:
                continue
            barrier = self.barriers[step.place]
            phase = barrier.current
            short = phase.arrived == barrier.count and phase.copied < phase.expected
            if short or phase.copied > phase.expected:
                self._bytes(-1, step.place)
        awaited = [n for n in waiting if waits[n].kind == Kind.AWAIT]
        if not awaited:
            self._absent(waits)
        coming = {
            step.place
            for actor in self.actors
            for step in actor.steps[actor.at :]
            if step.kind in (Kind.ARRIVE, Kind.EXPECT)
        }
        hopeless = [n for n in awaited if waits[n].place not in coming]
        first = (hopeless or awaited)[0]
        barrier = self.barriers[waits[first].place]
        why = "nobody is left to arrive" if hopeless else "those who would arrive wait as well"
        self._broken(
            -1,
            Rule.DEADLOCK,
            f"a wait for phase {barrier.done} never ends: the phase has "
            f"{barrier.current.arrived} of {barrier.count} arrivals, and {why}",
            others=tuple(dict.fromkeys((first, *waiting))),
            barrier=waits[first].place,
            phase=barrier.done,
        )

    def _absent(self, waits: dict[int, Step]) -> NoReturn:
        """A meeting to which some never come."""
        meeting = next(iter(waits.values())).place
        names = self.skeleton.meetings[meeting]
        absent = sorted(set(names.actors) - self.met[meeting])
        self._broken(
            -1,
            Rule.MEETING,
            f"{names.name} is reached by some of its threads only",
            others=(*waits, *(n for n in absent if n not in waits)),
        )
