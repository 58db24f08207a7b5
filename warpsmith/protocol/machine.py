"""Runs a skeleton once, and concludes about all interleavings.

What an actor does next never depends on time: its steps are a list. So there is one partial order
of steps, "comes before", as long as each wait passes at the same phase, and each arrival counts in
the same phase, in every interleaving. One run shows the order, and vector clocks keep it. The rules
that make it the only one are checked on the way, each for the first step that could break it:

  BEHIND    who waits for phase k knows that phase k - 1 is over: else a run exists in which the
            barrier still stands in phase k - 1, and "parity of k" was over before.
  AHEAD     phase k + 1 ends after all waits for phase k have passed: one of its arrivals comes
            after each of them. Else a run exists in which the waiter looks too late.
  ARRIVALS  who arrives in phase k knows that phase k - 1 is over: else a run exists in which the
            arrival counts in phase k - 1. The same goes for bytes and their announcement.

A step comes before another one if the actor of the second knows of it. Copies land at any time
between being asked for and the end of their phase, so nothing but a wait tells of them. Accesses of
one place must be ordered, if one of them writes: then no run differs in what is read. Who waits for
what threads sent knows which phases were over for them, and nothing of their accesses: `st.async`
releases its own bytes alone.

As long as these rules hold, a wait that can pass stays so until it has passed; hence, if this run
reaches the end, every run does.
"""

from __future__ import annotations

from warpsmith.protocol.ends import Ends
from warpsmith.protocol.rules import Rule
from warpsmith.protocol.skeleton import Async, Kind, Skeleton, Step
from warpsmith.protocol.states import PENDING, ActorState, BarrierState, Clock, Phase, together
from warpsmith.values import dataclass

_AWAIT, _ARRIVE, _EXPECT, _LOAD = Kind.AWAIT, Kind.ARRIVE, Kind.EXPECT, Kind.LOAD
_READ, _WRITE, _MEET, _JOIN = Kind.READ, Kind.WRITE, Kind.MEET, Kind.JOIN
_MULTIPLY, _SEND = Kind.MULTIPLY, Kind.SEND

ROUND = 64
"""Steps after which the others have their turn, at the next wait."""

MOST_BYTES = (1 << 20) - 1
"""That a phase of an mbarrier can count (PTX ISA, "mbarrier")."""


@dataclass(frozen=True, slots=True)
class Past:
    """A step that was taken, with the stamp that it had, and the phase that it was about."""

    actor: int
    step: Step
    stamp: int
    phase: int | None = None


class Machine(Ends):
    """One run of a skeleton.

    Args:
        skeleton: what to run.
        fair: remember every step, for `history`, and let actors go on by one wait at a time, which
            shows best what is wrong. What is concluded does not depend on it.

    Attributes:
        history: steps in the order of the run.
    """

    def __init__(self, skeleton: Skeleton, *, fair: bool = False) -> None:
        super().__init__(skeleton)
        self.history: list[Past] = []
        self._fair = fair

    def round(self) -> bool:
        """Let each actor run until it waits; whether any of them took a step.

        Raises:
            Broken: a rule is.
        """
        moved = False
        for number, actor in enumerate(self.actors):
            before = actor.at
            self._run(number, actor)
            moved = moved or actor.at != before
        return moved

    def _phase(self, step: Step) -> int | None:
        """The phase that a step at a barrier is about."""
        if step.kind in (Kind.ARRIVE, Kind.EXPECT):
            return self.barriers[step.place].done
        if step.kind in (_LOAD, _SEND):
            return self.barriers[step.barrier].done
        return self.barriers[step.place].done - 1 if step.kind == Kind.AWAIT else None

    # --- steps ---------------------------------------------------------------------------------

    def _run(self, number: int, actor: ActorState) -> None:
        """Take steps until one waits, the list ends, or a round's worth is taken."""
        enough = actor.at + ROUND
        steps, clock = actor.steps, actor.clock
        barriers, places = self.barriers, self.places
        while actor.at < actor.end:
            step = steps[actor.at]
            kind = step.kind
            stamp = clock[number]
            if self._fair:
                past = Past(number, step, stamp, self._phase(step))
            if kind is _AWAIT:
                if not self._await(number, actor, step, barriers[step.place]):
                    return
            elif kind is _READ:
                self._read(number, actor, step.place, places[step.place])
            elif kind is _MULTIPLY:
                self._multiply(number, actor, step.place)
            elif kind is _ARRIVE:
                barrier = barriers[step.place]
                self._may_count(number, actor, step.place, barrier, "an arrival")
                self._arrive(number, actor, step.place, barrier, step.amount * actor.weight)
            elif kind is _EXPECT:
                self._expect(number, actor, step)
            elif kind is _LOAD or kind is _SEND:
                self._load(number, actor, step)
            elif kind is _WRITE:
                self._write(number, actor, step.place, stamp)
            elif kind is _MEET:
                if not self._meet(number, step.place):
                    return
                continue
            elif kind is _JOIN:
                self._awaited(number, actor, step)
                actor.at += 1
                if self._fair:
                    self.history.append(past)
                return  # a round ends here, too, so that loops without waits have several
            else:
                self._rare(number, actor, step)
            actor.at += 1
            if self._fair:
                self.history.append(past)
            if kind is _AWAIT and (self._fair or actor.at > enough):
                return

    def _await(self, number: int, actor: ActorState, step: Step, barrier: BarrierState) -> bool:
        clock = actor.clock
        if not barrier.alive or clock[barrier.begun[0]] < barrier.begun[1]:
            self._not_alive(number, step.place)
        if barrier.done & 1 == step.amount:
            return False
        if not barrier.older.over(actor):
            self._behind(number, step, barrier)
        phase = barrier.previous
        stamp = clock[number]
        if number not in phase.seen:
            phase.seen[number] = stamp
            if phase.clock:
                clock[:] = map(max, clock, phase.clock)
            if phase.heard:
                actor.heard = together(actor.heard, phase.heard)
        actor.learned += 1
        phase.waits[number] = stamp
        return True

    def _may_count(
        self, number: int, actor: ActorState, place: int, barrier: BarrierState, what: str
    ) -> None:
        """Whether what an actor does at a barrier can only count in the current phase."""
        clock = actor.clock
        if not barrier.alive or clock[barrier.begun[0]] < barrier.begun[1]:
            self._not_alive(number, place)
        if not barrier.previous.over(actor):
            past = barrier.previous
            self._broken(
                number,
                Rule.ARRIVALS,
                f"{what} meant for phase {barrier.done} may count in phase {barrier.done - 1}, "
                "which need not be over",
                f"phase {barrier.done - 1} has its {barrier.count} arrivals without it",
                barrier=place,
                phase=barrier.done,
                others=tuple(a for a, s in past.arrivals.items() if clock[a] < s),
            )

    def _arrive(
        self, number: int, actor: ActorState, place: int, barrier: BarrierState, times: int
    ) -> None:
        phase, clock = barrier.current, actor.clock
        phase.arrived += times
        if phase.arrived > barrier.count:
            self._broken(
                number,
                Rule.ARRIVALS,
                f"phase {barrier.done} gets {phase.arrived} arrivals or more",
                f"its barrier counts {barrier.count}",
                barrier=place,
                phase=barrier.done,
            )
        self._join(number, actor, phase)
        phase.arrivals[number] = clock[number] - 1
        if phase.arrived == barrier.count:
            self._complete(number, place, barrier)

    def _join(self, number: int, actor: ActorState, phase: Phase) -> None:
        """The phase ends after all that the actor has done so far."""
        clock = actor.clock
        phase.clock = together(phase.clock, clock)
        if actor.heard:
            phase.heard = together(phase.heard, actor.heard)
        phase.joined[number] = actor.learned
        clock[number] += 1

    def _expect(self, number: int, actor: ActorState, step: Step) -> None:
        barrier = self.barriers[step.place]
        self._may_count(number, actor, step.place, barrier, "an announcement")
        phase = barrier.current
        phase.expected += step.amount * actor.weight
        if phase.expected > MOST_BYTES:
            self._bytes(number, step.place, f"more than the {MOST_BYTES} that a barrier can count")
        if step.arrivals:
            self._arrive(number, actor, step.place, barrier, step.arrivals * actor.weight)
        else:
            phase.announced[number] = actor.clock[number]

    def _load(self, number: int, actor: ActorState, step: Step) -> None:
        barrier, place = self.barriers[step.barrier], self.places[step.place]
        phase = barrier.current
        if not step.amount and place.fill is barrier.previous and place.filler == number:
            return  # a row that is not there, behind the last one of a stage that is full
        if not barrier.previous.over(actor):
            self._late_copy(number, step, barrier)
        self._may_count(number, actor, step.barrier, barrier, "a copy")
        if place.fill is phase and step.kind is _SEND:
            self._fill_too(number, step.place)
        elif place.fill is not phase or place.filler != number:
            self._free(number, step.place, by_tma=True)
            at = step.barrier, barrier.done
            place.refill(phase, number, at, several=step.kind is _SEND)
        phase.copied += step.amount * actor.weight
        if step.kind is _SEND:
            phase.heard = together(phase.heard, together(actor.heard, actor.clock))
            actor.clock[number] += 1
        elif phase.joined.get(number) != actor.learned:
            self._join(number, actor, phase)
        if phase.arrived == barrier.count:
            self._complete(number, step.barrier, barrier)

    def _complete(self, number: int, place: int, barrier: BarrierState) -> None:
        """All have arrived: the phase is over once its bytes are there."""
        phase = barrier.current
        if phase.copied < phase.expected:
            return
        if phase.copied > phase.expected:
            self._bytes(number, place)
        clock = together(phase.clock, phase.heard)
        for actor, stamp in phase.announced.items():
            if clock[actor] < stamp:
                self._bytes(actor, place, "bytes announced after the phase may be over")
        for actor, stamp in barrier.previous.waits.items():
            if clock[actor] < stamp:
                self._ahead(number, place, barrier, actor)
        barrier.older, barrier.previous, barrier.current = barrier.previous, phase, Phase()
        barrier.done += 1

    def _meet(self, number: int, meeting: int) -> bool:
        """Whether the actor was the last to come; then all have gone on."""
        met, names = self.met[meeting], self.skeleton.meetings[meeting]
        met.add(number)
        if len(met) < len(names.actors):
            return False
        clock = [max(column) for column in zip(*(self.actors[n].clock for n in met), strict=True)]
        heard: Clock = []
        for other in names.actors:
            heard = together(heard, self.actors[other].heard)
        for other in names.actors:
            actor = self.actors[other]
            if self._fair:
                self.history.append(Past(other, actor.steps[actor.at], actor.clock[other]))
            actor.clock[:] = clock
            actor.heard = heard.copy()
            actor.clock[other] += 1
            actor.learned += 1
            actor.at += 1
        met.clear()
        return True

    def _rare(self, number: int, actor: ActorState, step: Step) -> None:
        clock = actor.clock
        match step.kind:
            case Kind.FENCE:
                actor.fenced = clock.copy()
                for at in actor.unfenced:
                    self.places[at].fences[number] = clock[number]
                    self.places[at].shown.setdefault(number, clock[number])
                actor.unfenced.clear()
                clock[number] += 1
            case Kind.STORE:
                self._store(number, actor, step.place)
            case Kind.COPY:
                self._write(number, actor, step.place, PENDING)
                self._begun(number, actor, step.place, Async.COPIES)
            case Kind.COMMIT:
                actor.groups[step.amount].append(tuple(actor.open[step.amount]))
                actor.open[step.amount].clear()
            case Kind.BEGIN:
                for at in range(step.place, step.place + step.amount):
                    barrier = self.barriers[at]
                    barrier.restart()
                    barrier.alive, barrier.begun = True, (number, clock[number])
            case Kind.END:
                for at in range(step.place, step.place + step.amount):
                    self._end(number, clock, at)
