"""What the stages and warps of a kernel do over time, read from a timeline of the simulator."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from warpsmith.ir import integers
from warpsmith.kernel.kernel import Kernel, layout_of
from warpsmith.kernel.pipelines import Pipeline, with_contents
from warpsmith.tools.timelines import Event, Span

BARRIER_BYTES = 8


@dataclass(frozen=True, slots=True)
class Turn:
    """One time that a stage is filled and used.

    Attributes:
        number: of the fill, among all of the ring, from 0.
        phase: of both barriers of the stage, from 0.
        begin: when the filling began: a warp's look at the empty stage, or, of one that was never
            used, its announcement of bytes where it need not look.
        full, empty: when the phases of the stage's barriers ended.
        copies: from the issue of a copy to its end, into or out of the stage.
    """

    ring: str
    stage: int
    number: int
    phase: int
    begin: int
    full: int
    empty: int
    copies: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """What a warp does between its waits for stages and the last of its arrivals.

    Attributes:
        number: of this work among those of the warp, from 0.
    """

    number: int
    span: Span


@dataclass(frozen=True, slots=True)
class Timeline:
    """One block.

    Attributes:
        turns: of each ring, in the order of their fills.
        works, waits: of each warp; waits are for stages, and for stores to be read.
    """

    turns: Mapping[str, tuple[Turn, ...]]
    works: Mapping[int, tuple[Work, ...]]
    waits: Mapping[int, tuple[Span, ...]]

    @property
    def end(self) -> int:
        ends = [turn.empty for turns in self.turns.values() for turn in turns]
        return max(ends) + 1

    def check_order(self) -> None:
        """Stages are filled, then used, then filled again.

        Raises:
            ValueError: one is not; it is named.
        """
        for ring, turns in self.turns.items():
            for turn in turns:
                what = f"{ring} stage {turn.stage} in phase {turn.phase}"
                if not turn.begin < turn.full < turn.empty:
                    raise ValueError(f"{what}: {turn.begin}, full {turn.full}, empty {turn.empty}")
                later = [t for t in turns if (t.stage, t.phase) == (turn.stage, turn.phase + 1)]
                if any(each.begin < turn.empty for each in later):
                    raise ValueError(f"{what} is empty at {turn.empty}, and filled before")


def read_timeline(events: Iterable[Event], kernel: Kernel, cta: int = 0) -> Timeline:
    """The rings, and what each warp does, from the events of a timeline.

    Without roles a thread that asks for copies uses them, too: only that is its work.

    Raises:
        ValueError: the timeline is not that of the kernel.
    """
    mine = [event for event in events if event["pid"] == cta]
    places = barrier_places(mine, kernel)
    over: dict[tuple[str, int, int], int] = {}
    for event in mine:
        if event.get("cat") == "phase" and event["name"].startswith("mbarrier"):
            _, address, _, phase = event["name"].split(" ")
            name, stage = places[int(address, 16)]
            over[name, stage, int(phase)] = event["ts"]
    marks = _marks(mine, places)
    copies = _copies(mine)
    rings = with_contents(kernel.pipelines)
    turns = {ring.name: _turns(ring, over, marks, copies, places) for ring in rings}
    used = {(each.full.name, False) for each in rings if not each.producer}
    used |= {(each.empty.name, True) for each in rings if not each.producer and each.empty}
    works = {
        warp: _works([m for m in found if not used or (m.barrier, m.arrives) in used])
        for warp, found in marks.items()
    }
    waits = {warp: _waits(mine, warp) for warp in marks}
    return Timeline(turns, works, waits)


@dataclass(frozen=True, slots=True)
class _Mark:
    """A warp arrives at a stage's barrier, or knows that a phase of it is over."""

    arrives: bool
    barrier: str
    stage: int
    phase: int
    at: int


@dataclass(frozen=True, slots=True)
class _Copy:
    """A copy of the TMA unit; `barrier` is the address of that of a load, or -1."""

    warp: int
    barrier: int
    span: Span


def barrier_places(events: Sequence[Event], kernel: Kernel) -> dict[int, tuple[str, int]]:
    """Barrier and stage of each address; the lowest barrier of the kernel is the lowest there."""
    barriers = [b for ring in kernel.pipelines for b in ring.barriers]
    names = {barrier.name for barrier in barriers}
    known = {
        place.buffer.name: integers.constant(place.start) or 0
        for place in layout_of(kernel).places
        if place.buffer.name in names
    }
    seen = {
        int(event["args"]["mbarrier"], 16)
        for event in events
        if "mbarrier" in event.get("args", {})
    }
    if not seen:
        raise ValueError("nothing is done at any mbarrier")
    start = min(seen) - min(known.values())
    stages = {b.name: ring.stages for ring in kernel.pipelines for b in ring.barriers}
    places = {
        start + offset + BARRIER_BYTES * stage: (name, stage)
        for name, offset in known.items()
        for stage in range(stages[name])
    }
    if not seen <= places.keys():
        raise ValueError("mbarriers are elsewhere than those of the kernel's rings")
    return places


def _marks(
    events: Sequence[Event], places: Mapping[int, tuple[str, int]]
) -> dict[int, tuple[_Mark, ...]]:
    """By warp, in order."""
    found: dict[int, list[_Mark]] = defaultdict(list)
    for event in events:
        if event.get("cat") in ("arrival", "over"):
            arguments = event["args"]
            name, stage = places[int(arguments["mbarrier"], 16)]
            arrives = event["cat"] == "arrival"
            mark = _Mark(arrives, name, stage, arguments["phase"], event["ts"])
            found[event["tid"]].append(mark)
    return {warp: tuple(marks) for warp, marks in found.items()}


def _copies(events: Sequence[Event]) -> tuple[_Copy, ...]:
    ends = {e["id"]: e["ts"] for e in events if e.get("cat") == "copy" and e["ph"] == "e"}
    return tuple(
        _Copy(
            event["args"]["warp"],
            int(event["args"].get("mbarrier", "-1"), 16),
            Span(event["ts"], ends[event["id"]]),
        )
        for event in events
        if event.get("cat") == "copy" and event["ph"] == "b"
    )


def _turns(
    ring: Pipeline,
    over: Mapping[tuple[str, int, int], int],
    marks: Mapping[int, tuple[_Mark, ...]],
    copies: Sequence[_Copy],
    places: Mapping[int, tuple[str, int]],
) -> tuple[Turn, ...]:
    assert ring.empty is not None
    everything = [(warp, mark) for warp, found in marks.items() for mark in found]
    result: list[Turn] = []
    phases = sorted((phase, stage) for name, stage, phase in over if name == ring.full.name)
    for phase, stage in phases:
        full, empty = (over.get((b.name, stage, phase)) for b in (ring.full, ring.empty))
        if full is None or (empty is None and (phase + 1, stage) in phases):
            raise ValueError(f"{ring.name} stage {stage} is not emptied in phase {phase}")
        looks = [
            mark.at
            for _, mark in everything
            if (mark.arrives, mark.barrier, mark.stage, mark.phase)
            == (False, ring.empty.name, stage, phase - 1)
        ]
        announced = (
            mark.at
            for _, mark in everything
            if (mark.arrives, mark.barrier, mark.stage, mark.phase)
            == (True, ring.full.name, stage, phase)
        )
        looked = min(looks or announced)
        users = {
            warp
            for warp, mark in everything
            if not mark.arrives and (mark.barrier, mark.stage) == (ring.full.name, stage)
        }
        own = tuple(
            copy.span
            for copy in copies
            if (
                places[copy.barrier] == (ring.full.name, stage)
                if copy.barrier >= 0
                else copy.warp in users
            )
            and copy.span.begin
            in (
                range(looked, full + 1)
                if copy.barrier >= 0
                else _turn_of(marks[copy.warp], ring, full)
            )
        )
        if empty is None:  # the stage is not filled again, and nobody says that it is free
            empty = max((span.end for span in own), default=full)
        result.append(Turn(ring.name, stage, len(result), phase, looked, full, empty, own))
    return tuple(result)


def _turn_of(marks: Sequence[_Mark], ring: Pipeline, full: int) -> range:
    """Cycles from when a warp finds a stage full until it finds the next one."""
    looks = [m.at for m in marks if not m.arrives and m.barrier == ring.full.name]
    mine = bisect_left(looks, full)
    return range(looks[mine], looks[mine + 1] if mine + 1 < len(looks) else sys.maxsize)


def _works(marks: Sequence[_Mark]) -> tuple[Work, ...]:
    """From the last of some looks to the last of the arrivals that follow them.

    Whoever looks for the next stage of a ring without an arrival in between has asked for a copy.
    """
    runs = [list(run) for _, run in groupby(marks, key=lambda mark: mark.arrives)]
    spans: list[Span] = []
    for before, after in pairwise(runs):
        if not before[0].arrives:
            names = [mark.barrier for mark in before]
            again = [m for place, m in enumerate(before) if m.barrier in names[place + 1 :]]
            spans += [Span(mark.at, mark.at) for mark in again]
            spans.append(Span(before[-1].at, after[-1].at))
    return tuple(Work(number, span) for number, span in enumerate(spans))


def _waits(events: Sequence[Event], warp: int) -> tuple[Span, ...]:
    names = ("waits for mbarrier", "waits for bulk groups")
    return tuple(
        Span(e["ts"], e["ts"] + e["dur"])
        for e in events
        if e.get("cat") == "wait" and e["tid"] == warp and e["name"].startswith(names)
    )
