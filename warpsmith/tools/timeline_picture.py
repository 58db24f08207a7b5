"""Draws what warps and stages do over time, from a run of their kernel on the simulator.

python -m warpsmith.tools.timeline_picture ring docs/pictures/ring.svg
python -m warpsmith.tools.timeline_picture roles docs/pictures/roles.svg
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from warpsmith.engine.launches import CallPlan
from warpsmith.engine.role_facts import role_rows
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.pipelines import Pipeline, with_contents
from warpsmith.targets.family import WARP
from warpsmith.tools.drawing import Scale, axis, bar, framed, legend, text
from warpsmith.tools.page_examples import RING_SHAPE, SHAPE, scheduled_ring, scheduled_roles
from warpsmith.tools.spans import Timeline, Turn, read_timeline
from warpsmith.tools.timelines import Span, planned, timeline

_LEFT: Final = 140
_LANE: Final = 16
_GAP: Final = 10
_TOP: Final = 72
_NARROW: Final = 10  # work of fewer units is a mark


EXAMPLES: Final = {
    "ring": (scheduled_ring, [RING_SHAPE]),
    "roles": (scheduled_roles, [SHAPE, SHAPE]),
}
"""By name of a picture, its kernel, and the shapes of that one's inputs."""


def agents_of(call: CallPlan) -> dict[str, range]:
    """The warps of each role of the call's kernel, or of all threads, by name."""
    (launch,) = call.launches
    compiled = launch.compiled
    roles = role_rows(compiled.kernel, call.problem.values, compiled.n_regs)
    if not roles:
        return {"": range(launch.block[0] // WARP)}
    return {row.name: range(row.first_warp, row.last_warp + 1) for row in roles}


def picture(kernel: Kernel, agents: Mapping[str, range], found: Timeline) -> str:
    """Roles and the stages between them as SVG, from the first to fill down to the last to use."""
    x = Scale(found.end, _LEFT)
    lines = list(_head(kernel, found))
    top = _TOP
    for part in in_order(kernel):
        if isinstance(part, Pipeline):
            turns = found.turns[part.name]
            for stage in range(part.stages):
                own = [turn for turn in turns if turn.stage == stage]
                lines += _stage(f"{part.name}, stage {stage}", own, top, x)
                top += _LANE
        else:
            for warp in agents[part]:
                lines += _warp(part, agents[part], warp, found, top, x)
                top += _LANE
        top += _GAP
    lines += axis(top + 4, x)
    return framed(top + 32, "Warps and rings on the simulator", lines)


def in_order(kernel: Kernel) -> Iterator[str | Pipeline]:
    """Each role's name, with the rings that it fills behind it and those that it uses before it;
    without roles the rings, and all threads, which have no name.
    """
    rings = with_contents(kernel.pipelines)
    if not any(ring.producer for ring in rings):
        yield from rings
        yield ""
        return
    names = dict.fromkeys(name for ring in rings for name in (ring.producer, *ring.consumers))
    shown: set[str] = set()
    while len(shown) < len(names):
        role = next(
            name
            for name in names
            if name not in shown
            and all(ring.producer in shown for ring in rings if name in ring.consumers)
        )
        shown.add(role)
        yield role
        yield from (ring for ring in rings if ring.producer == role)


def _stage(name: str, turns: list[Turn], top: int, x: Scale) -> Iterator[str]:
    """One lane: grey is free, orange under way, green holds what nobody has done with yet."""
    yield text(_LEFT - 8, top + 12, name, "quiet", "end")
    yield bar(x, Span(0, x.end), top, _LANE - 2, "free")
    for turn in turns:
        yield bar(x, Span(turn.full, turn.empty), top, _LANE - 2, "full")
        for copy in turn.copies:
            yield bar(x, copy, top, _LANE - 2, "copy")
        spans = [*turn.copies, Span(turn.full, turn.empty)]
        middle = (x(spans[0].begin) + x(spans[0].end)) / 2
        yield text(middle, top + 11, str(turn.number), "", "middle")


def _warp(
    agent: str, warps: range, warp: int, found: Timeline, top: int, x: Scale
) -> Iterator[str]:
    """One lane: waits, and what is done between them, by number."""
    name = agent if warp == warps[0] else ""
    yield text(_LEFT - 8, top + 12, f"{name}  warp {warp}".strip(), "", "end")
    shade = f"warp{(warp - warps[0]) % 2}"
    wide = [w for w in found.works[warp] if x(w.span.end) - x(w.span.begin) >= _NARROW]
    waits = found.waits[warp]
    yield from (bar(x, work.span, top, _LANE - 2, shade) for work in wide)
    yield from (bar(x, span, top, _LANE - 2, "wait") for span in waits)
    for work in found.works[warp]:
        at = x(work.span.begin)
        if work not in wide:
            yield f'<path class="asked" d="M{at} {top} l3 {_LANE - 2} h-6 z"/>'
        elif not any(work.span.begin < span.end <= work.span.end for span in waits):
            yield text(at + _NARROW / 2, top + 11, str(work.number), "inside", "middle")


def _head(kernel: Kernel, found: Timeline) -> Iterator[str]:
    tiles = max(len(turns) for turns in found.turns.values())
    rings = with_contents(kernel.pipelines)
    roles = {name for ring in rings for name in (ring.producer, *ring.consumers) if name}
    parts = f"{len(roles)} roles, {len(rings)} rings" if roles else f"{rings[0].stages} stages"
    yield text(20, 24, f"{parts}, {tiles} tiles", "", "start")
    entries = [
        ("free", "stage is free"),
        ("copy", "copy under way"),
        ("full", "full, not yet given back"),
        ("warp0", "warp at work"),
        ("wait", "waits"),
        ("asked", "asks for a copy"),
    ]
    yield from legend(entries)


def main(name: str, path: Path) -> None:
    """Run, check and draw."""
    fusion, shapes = EXAMPLES[name]
    call = planned(fusion(), shapes)
    kernel = call.launches[0].compiled.kernel
    found = read_timeline(timeline(call, shapes), kernel)
    found.check_order()
    path.write_text(picture(kernel, agents_of(call), found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
