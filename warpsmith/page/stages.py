"""Stages of a block's pipelines over time, from the events of the simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from warpsmith.ir import integers
from warpsmith.kernel.kernel import Kernel, layout_of
from warpsmith.kernel.pipelines import with_contents
from warpsmith.values import dataclass

BARRIER_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Fill:
    """One time that a stage is filled and used.

    Attributes:
        phase: of both barriers of the stage, from 0.
        full, empty: when the phases of these ended; `empty` is None where nobody says so.
    """

    stage: int
    phase: int
    full: int
    empty: int | None


def barrier_places(
    events: Sequence[Mapping[str, Any]], kernel: Kernel
) -> dict[int, tuple[str, int]]:
    """Barrier and stage of each address; the lowest barrier of the kernel is the lowest there.

    Raises:
        ValueError: nothing is done at mbarriers, or they are not those of the kernel's pipelines.
    """
    stages = {b.name: ring.stages for ring in kernel.pipelines for b in ring.barriers}
    known = {
        place.buffer.name: integers.constant(place.start) or 0
        for place in layout_of(kernel).places
        if place.buffer.name in stages
    }
    seen = {
        int(event["args"]["mbarrier"], 16)
        for event in events
        if "mbarrier" in event.get("args", {})
    }
    if not seen:
        raise ValueError("nothing is done at any mbarrier")
    start = min(seen) - min(known.values(), default=0)
    places = {
        start + offset + BARRIER_BYTES * stage: (name, stage)
        for name, offset in known.items()
        for stage in range(stages[name])
    }
    if not seen <= places.keys():
        raise ValueError("mbarriers are elsewhere than those of the kernel's pipelines")
    return places


def fills(
    events: Sequence[Mapping[str, Any]], places: Mapping[int, tuple[str, int]], kernel: Kernel
) -> dict[str, tuple[Fill, ...]]:
    """By name of a pipeline with contents, the fills of its stages in turn."""
    over: dict[tuple[str, int, int], int] = {}
    for event in events:
        if event.get("cat") == "phase" and event["name"].startswith("mbarrier"):
            _, address, _, phase = event["name"].split(" ")
            if int(address, 16) in places:
                over[*places[int(address, 16)], int(phase)] = event["ts"]
    found: dict[str, tuple[Fill, ...]] = {}
    for ring in with_contents(kernel.pipelines):
        turns = sorted((phase, stage) for name, stage, phase in over if name == ring.full.name)
        empty = ring.empty.name if ring.empty is not None else ""
        if turns:
            found[ring.name] = tuple(
                Fill(
                    stage,
                    phase,
                    over[ring.full.name, stage, phase],
                    over.get((empty, stage, phase)),
                )
                for phase, stage in turns
            )
    return found
