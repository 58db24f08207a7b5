"""What the warps of one block do, and which copies are under way, in a run on the simulator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any, Final

import numpy as np

from warpsmith.engine.role_facts import RoleRow
from warpsmith.engine.simulated import Memory
from warpsmith.engine.smaller import Smaller, arrays_of
from warpsmith.errors import WarpsmithError
from warpsmith.kernel.kernel import Kernel
from warpsmith.page.stages import barrier_places, fills
from warpsmith.sim.isa import Op
from warpsmith.sim.machine import Launch, Outcome
from warpsmith.sim.report import KINDS
from warpsmith.sim.trace import trace_events
from warpsmith.values import dataclass

Event = dict[str, Any]

BUDGET: Final = 1 << 22
"""Instructions of warps that a run may take: some seconds."""

WORK: Final = 2e7
"""Of `Smaller`, what a run may take: a second or two."""

_LESS: Final = 16
"""By how much less work is tried, once, where a run takes too long."""

_WARPS: Final = 8
_OF_AGENT: Final = 4
"""Warps of a block that have a lane each; of more, so many of each agent."""


@dataclass(frozen=True, slots=True)
class Span:
    """From one cycle to another.

    Attributes:
        kind: `run`, `product`, `wait`, `load`, `store`, or `full`, of a stage.
        number: that is written into it.
    """

    begin: int
    end: int
    kind: str
    about: str
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Lane:
    """One line of the timeline; its spans do not overlap."""

    name: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """One block of a kernel.

    Attributes:
        sizes: of the arguments, in words.
        grid: of the run.
        groups: lanes with what they have in common.
        hidden: warps without a lane, of those that have an agent.
        end: the last cycle.
    """

    sizes: str
    grid: tuple[int, int, int]
    block: int
    groups: tuple[tuple[str, tuple[Lane, ...]], ...]
    hidden: int
    end: int


def timeline_of(found: Iterable[Smaller], roles: Sequence[RoleRow]) -> Timeline | str:
    """The timeline of the first of some sizes that the simulator runs in time; or why there is
    none.
    """
    reason = "the kernel serves no sizes that are small enough"
    most = inf
    for each in found:
        if each.work > most:
            continue
        memory = Memory()
        for name, array, defined in arrays_of(each):
            memory.add(name, array, defined=defined)
        scalars = {symbol: each.scalars.get(symbol, 0) for symbol in each.launch.scalars}
        try:
            launch, outcome = memory.trace(each.launch, scalars, BUDGET)
        except WarpsmithError as failure:
            return f"the simulator cannot take the kernel: {failure}"
        if not len(outcome.findings):
            return _read(each, launch, outcome, roles)
        reason = _why_not(each, outcome)
        if most < inf:
            break
        most = each.work / _LESS
    return reason


def _why_not(each: Smaller, outcome: Outcome) -> str:
    """What the simulator found, where that is not nothing."""
    first = outcome.findings[0]
    sizes = f"with {sizes_text(each)}"
    if KINDS[first["kind"]] == "budget":
        return f"{sizes}, the simulator needs more than {BUDGET:,} instructions of warps"
    message = bytes(first["message"]).decode(errors="replace")
    return f"{sizes}, the simulator finds something wrong: {message}"


def _read(each: Smaller, launch: Launch, outcome: Outcome, roles: Sequence[RoleRow]) -> Timeline:
    blocks = outcome.events["cta"]
    block = int(np.bincount(blocks).argmax()) if len(blocks) else 0
    only = replace(outcome, events=outcome.events[blocks == block])
    mine = list(trace_events(launch, only))
    kernel = each.launch.compiled.kernel
    places = _places(mine, kernel)
    products = [
        instruction.place.line
        for instruction in launch.program.instructions
        if instruction.op is Op.WGMMA
    ]
    warps = sorted({e["tid"] for e in mine if e.get("cat") in ("run", "wait")})
    shown = _shown(warps, roles)
    groups = [
        (
            name,
            tuple(Lane(f"warp {w}", tuple(_warp(mine, w, places, products))) for w in members),
        )
        for name, members in _agents(shown, roles)
    ]
    groups += _stages(mine, places, kernel)
    copies = tuple(_copies(mine, places))
    for name, kind in (("copies in", "load"), ("copies out", "store")):
        lanes = tuple(_tracks([span for span in copies if span.kind == kind]))
        if lanes:
            groups.append((name, lanes))
    spans = [span for _, lanes in groups for lane in lanes for span in lane.spans]
    return Timeline(
        sizes=sizes_text(each),
        grid=each.launch.grid,
        block=block,
        groups=tuple(groups),
        hidden=sum(len(members) for _, members in _agents(warps, roles)) - len(shown),
        end=max((span.end for span in spans), default=1),
    )


def sizes_text(each: Smaller) -> str:
    """`T0 [64, 256], T1 [256]`: the tensors that the kernel reads and writes."""
    segment = each.planned.segment
    return ", ".join(
        f"{tensor.name} {[each.problem.size(axis.extent) for axis in tensor.shape_axes]}"
        for tensor in dict.fromkeys((*segment.reads, *segment.writes))
    )


def _places(events: Sequence[Event], kernel: Kernel) -> Mapping[int, tuple[str, int]]:
    """Barrier and stage of each address; nothing where mbarriers are not those of pipelines."""
    try:
        return barrier_places(events, kernel)
    except ValueError:
        return {}


def _shown(warps: Sequence[int], roles: Sequence[RoleRow]) -> list[int]:
    most = None if len(warps) <= _WARPS else _OF_AGENT
    return [warp for _, members in _agents(warps, roles) for warp in members[:most]]


def _agents(warps: Sequence[int], roles: Sequence[RoleRow]) -> Iterator[tuple[str, Sequence[int]]]:
    """Warps by the agent that they are of."""
    rest = list(warps)
    for role in roles:
        mine = [w for w in rest if role.first_warp <= w <= role.last_warp]
        rest = [w for w in rest if w not in mine]
        if mine:
            yield f"{role.name}: {role.kind}", mine
    if not roles:
        yield "all threads", rest


def _warp(
    events: Sequence[Event],
    warp: int,
    places: Mapping[int, tuple[str, int]],
    products: Sequence[int],
) -> Iterator[Span]:
    """What a warp does, in order: it runs, multiplies, or waits."""
    mine = [event for event in events if event["tid"] == warp]
    busy = list(_products(mine, places, products))
    for event in mine:
        if event.get("cat") not in ("run", "wait"):
            continue
        begin, end = event["ts"], event["ts"] + event["dur"]
        if event["cat"] == "wait":
            yield Span(begin, end, "wait", _named(event["name"], places))
            continue
        at = begin
        for first, last in busy:
            first, last = max(first, at), min(last, end)
            if first < last:
                if at < first:
                    yield Span(at, first, "run", "runs")
                yield Span(first, last, "product", "multiplies on tensor cores")
                at = last
        if at < end:
            yield Span(at, end, "run", "runs")


def _products(
    events: Sequence[Event], places: Mapping[int, tuple[str, int]], products: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Cycles from finding a stage full to saying that it is free, between which products are; those
    that meet are one.
    """
    full: dict[str, tuple[int, int]] = {}
    found: list[tuple[int, int]] = []
    for event in events:
        if event.get("cat") not in ("over", "arrival"):
            continue
        name, stage = places.get(int(event["args"]["mbarrier"], 16), ("", 0))
        ring, _, end = name.rpartition("_")
        key = f"{ring} {stage}"
        line = event["args"]["line"]
        if event["cat"] == "over" and end == "full":
            full[key] = event["ts"], line
        elif event["cat"] == "arrival" and end == "empty" and key in full:
            begin, first = full.pop(key)
            low, high = sorted((first, line))
            if any(low <= product <= high for product in products):
                found.append((begin, event["ts"]))
    at = None
    for begin, end_ in sorted(found):
        if at is not None and begin <= at[1]:
            at = at[0], max(at[1], end_)
            continue
        if at is not None:
            yield at
        at = begin, end_
    if at is not None:
        yield at


def _stages(
    events: Sequence[Event], places: Mapping[int, tuple[str, int]], kernel: Kernel
) -> Iterator[tuple[str, tuple[Lane, ...]]]:
    """Of each pipeline, when its stages are full: from the last landing to the last arrival."""
    last = max((event["ts"] for event in events if "ts" in event), default=0)
    for name, found in fills(events, places, kernel).items():
        lanes: dict[int, list[Span]] = defaultdict(list)
        for number, fill in enumerate(found):
            end = max(last if fill.empty is None else fill.empty, fill.full + 1)
            lanes[fill.stage].append(Span(fill.full, end, "full", f"fill {number}", number))
        stages = sorted(lanes.items())
        yield name, tuple(Lane(f"stage {stage}", tuple(spans)) for stage, spans in stages)


def _named(words: str, places: Mapping[int, tuple[str, int]]) -> str:
    """What a wait is for, with the name of the barrier in place of its address."""
    before, mark, rest = words.partition("mbarrier ")
    address, _, behind = rest.partition(" ")
    if not mark or int(address, 16) not in places:
        return words
    name, stage = places[int(address, 16)]
    return f"{before}{name} of stage {stage}, {behind}"


def _copies(events: Sequence[Event], places: Mapping[int, tuple[str, int]]) -> Iterator[Span]:
    """Copies of the TMA unit and `cp.async`, from their issue to their landing."""
    ends = {e["id"]: e["ts"] for e in events if e.get("cat") == "copy" and e["ph"] == "e"}
    for event in events:
        if event.get("cat") != "copy" or event["ph"] != "b":
            continue
        given = event["args"]
        instruction = given["text"].split(" [")[0].removeprefix("@p ")
        out = ".global.shared" in instruction
        into = places.get(int(given["mbarrier"], 16)) if "mbarrier" in given else None
        stage = f" for {into[0]} of stage {into[1]}" if into else ""
        about = f"{given['bytes']} bytes{stage}, asked for by warp {given['warp']}: {instruction}"
        yield Span(
            event["ts"], max(ends[event["id"]], event["ts"] + 1), "store" if out else "load", about
        )


def _tracks(spans: Sequence[Span]) -> Iterator[Lane]:
    """Spans in as few lanes as there are at a time."""
    tracks: dict[int, list[Span]] = defaultdict(list)
    for span in sorted(spans, key=lambda each: (each.begin, each.end)):
        free = (n for n, lane in tracks.items() if lane[-1].end <= span.begin)
        tracks[next(free, len(tracks))].append(span)
    for lane in tracks.values():
        yield Lane("", tuple(lane))
