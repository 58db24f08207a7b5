"""What becomes of a ring's stages over time, read from a timeline of the simulator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Span:
    """From one cycle of the timing model to another."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Turn:
    """One time that a stage is filled and used.

    Attributes:
        stage: counted in the order in which stages are first filled.
        phase: of both barriers of the stage, counted from 0.
        copy: from the first copy's issue to the last one's landing.
        uses: of each warp, from the moment at which it knows that the stage is full to its arrival
            at the empty barrier.
        asked: when the elected thread knew that the stage was empty, or just used it first.
    """

    stage: int
    phase: int
    copy: Span
    uses: dict[int, Span]
    asked: int


@dataclass(frozen=True, slots=True)
class Ring:
    """All turns of the stages of one ring in one block.

    Attributes:
        turns: in the order of their copies.
        waits: of each warp, for full stages.
        held: waits of the elected thread for empty stages.
        elected: the warp that asks for copies.
    """

    turns: tuple[Turn, ...]
    waits: dict[int, tuple[Span, ...]]
    held: tuple[Span, ...]
    elected: int

    @property
    def stages(self) -> int:
        return 1 + max(turn.stage for turn in self.turns)

    @property
    def warps(self) -> tuple[int, ...]:
        return tuple(sorted({warp for turn in self.turns for warp in turn.uses}))

    @property
    def end(self) -> int:
        return max(span.end for turn in self.turns for span in turn.uses.values())

    def of_stage(self, stage: int) -> tuple[Turn, ...]:
        """The turns of one stage, the first first."""
        return tuple(turn for turn in self.turns if turn.stage == stage)

    def check_order(self) -> None:
        """Uses lie between the landing of their copy and the start of the stage's next one.

        Raises:
            ValueError: one does not; it is named.
        """
        for stage in range(self.stages):
            turns = self.of_stage(stage)
            for turn, later in zip(turns, (*turns[1:], None), strict=True):
                what = f"stage {stage} in phase {turn.phase}"
                for warp, use in turn.uses.items():
                    if not turn.copy.begin < turn.copy.end <= use.begin < use.end:
                        raise ValueError(f"warp {warp} uses {what} at {use}, filled at {turn.copy}")
                    if later and not use.end <= later.asked <= later.copy.begin:
                        raise ValueError(f"{what} is filled anew at {later.copy}, used at {use}")


def read_ring(events: Iterable[Event], cta: int = 0) -> Ring:
    """The one ring of a block, filled by TMA, from the events of a timeline.

    Barriers are told apart by what is done with them: copies complete on a full one, and the last
    barrier that the copying warp looked at before it announced the bytes is the empty one.

    Raises:
        ValueError: the timeline is not that of such a ring.
    """
    mine = [event for event in events if event["pid"] == cta]
    copies = _copies(mine)
    marks: dict[int, list[Event]] = defaultdict(list)
    for event in mine:
        if event.get("cat") in ("arrival", "over"):
            marks[event["tid"]].append(event)
    if not copies or len(elected := {warp for _, warp in copies.values()}) != 1:
        raise ValueError("a ring's copies are asked for by one warp")
    (elected_warp,) = elected
    stages: dict[str, int] = {}
    empties: dict[str, str] = {}
    looked: dict[tuple[str, int], Event] = {}
    for full, phase in copies:
        stage = stages.setdefault(full, len(stages))
        look = looked[full, phase] = _before_announcement(marks[elected_warp], full, phase)
        if look["cat"] == "over":
            known = empties.setdefault(full, look["args"]["mbarrier"])
            if (known, phase - 1) != (look["args"]["mbarrier"], look["args"]["phase"]):
                raise ValueError(f"stage {stage} is filled in phase {phase} after {look['name']}")
    turns = []
    for (full, phase), (copy, _) in copies.items():
        uses = {
            warp: span
            for warp, found in marks.items()
            if (span := _use(found, full, empties.get(full, ""), phase)) is not None
        }
        turns.append(Turn(stages[full], phase, copy, uses, asked=looked[full, phase]["ts"]))
    waits = {warp: _waits(mine, warp, stages) for warp in marks}
    return Ring(tuple(turns), waits, _waits(mine, elected_warp, empties.values()), elected_warp)


def _copies(events: Sequence[Event]) -> dict[tuple[str, int], tuple[Span, int]]:
    """Copies by full barrier and phase, in the order of issue, each with the warp that asked.

    Copies of one phase count as one. Which phase a copy belongs to, the announcements tell: a warp
    announces, and then asks.
    """
    ends = {e["id"]: e["ts"] for e in events if e.get("cat") == "copy" and e["ph"] == "e"}
    begins = [
        e for e in events if e.get("cat") == "copy" and e["ph"] == "b" and "mbarrier" in e["args"]
    ]
    found: dict[tuple[str, int], tuple[Span, int]] = {}
    for event in sorted(begins, key=lambda e: (e["ts"], e["id"])):
        full, warp = event["args"]["mbarrier"], event["args"]["warp"]
        announced = [
            e["args"]["phase"]
            for e in events
            if e.get("cat") == "arrival"
            and e["tid"] == warp
            and e["args"]["mbarrier"] == full
            and e["ts"] <= event["ts"]
        ]
        key = (full, announced[-1])
        span = Span(event["ts"], ends[event["id"]])
        if key in found:
            before = found[key][0]
            span = Span(before.begin, max(before.end, span.end))
        found[key] = (span, warp)
    return found


def _before_announcement(marks: Sequence[Event], full: str, phase: int) -> Event:
    """What a warp looked at last before it announced the bytes of that phase.

    In a stage's first phase it need not look, and the announcement itself is given.
    """
    for before, event in pairwise((None, *marks)):
        assert event is not None
        if _is(event, "arrival", full, phase):
            if before is not None and before["cat"] == "over":
                return before
            if phase == 0:
                return event
    raise ValueError(f"mbarrier {full} phase {phase} is filled without a look at an empty one")


def _use(marks: Sequence[Event], full: str, empty: str, phase: int) -> Span | None:
    begins = [e["ts"] for e in marks if _is(e, "over", full, phase)]
    ends = [e["ts"] for e in marks if _is(e, "arrival", empty, phase)]
    return Span(begins[0], ends[0]) if begins and ends else None


def _is(event: Event, category: str, barrier: str, phase: int) -> bool:
    arguments = event["args"]
    found = (event["cat"], arguments["mbarrier"], arguments["phase"])
    return found == (category, barrier, phase)


def _waits(events: Sequence[Event], warp: int, barriers: Iterable[str]) -> tuple[Span, ...]:
    names = tuple(f"waits for mbarrier {barrier} phase " for barrier in barriers)
    return tuple(
        Span(e["ts"], e["ts"] + e["dur"])
        for e in events
        if e.get("cat") == "wait" and e["tid"] == warp and e["name"].startswith(names)
    )
