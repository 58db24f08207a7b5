"""Draws what roles and stages do over time, from a run of their kernel on the simulator.

python -m warpsmith.tools.role_picture docs/pictures/roles.svg
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from warpsmith.engine.role_facts import RoleRow, role_rows
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.pipelines import Pipeline, with_contents
from warpsmith.tools.drawing import Scale, axis, bar, framed, legend, text
from warpsmith.tools.ring_spans import Span
from warpsmith.tools.role_example import SHAPE, scheduled_roles
from warpsmith.tools.role_spans import Timeline, Turn, read_roles
from warpsmith.tools.timelines import planned, timeline

_LEFT: Final = 140
_LANE: Final = 16
_GAP: Final = 10
_TOP: Final = 72
_NARROW: Final = 10  # work of fewer units is a mark


def drawn() -> tuple[Kernel, tuple[RoleRow, ...], Timeline]:
    """The example's kernel, its roles, and what its one block does."""
    shapes = [SHAPE, SHAPE]
    call = planned(scheduled_roles(), shapes)
    compiled = call.launches[0].compiled
    roles = role_rows(compiled.kernel, call.problem.values, compiled.n_regs)
    return compiled.kernel, roles, read_roles(timeline(call, shapes), compiled.kernel)


def picture(kernel: Kernel, roles: Sequence[RoleRow], found: Timeline) -> str:
    """Roles and the stages between them as SVG, from the first to fill down to the last to use."""
    x = Scale(found.end, _LEFT)
    rows = {row.name: row for row in roles}
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
            row = rows[part]
            for warp in range(row.first_warp, row.last_warp + 1):
                lines += _warp(row, warp, found, top, x)
                top += _LANE
        top += _GAP
    lines += axis(top + 4, x)
    return framed(top + 32, "Roles and the rings between them on the simulator", lines)


def in_order(kernel: Kernel) -> Iterator[str | Pipeline]:
    """Each role's name, with the rings that it fills behind it and those that it uses before it."""
    rings = with_contents(kernel.pipelines)
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


def _warp(row: RoleRow, warp: int, found: Timeline, top: int, x: Scale) -> Iterator[str]:
    """One lane: waits, and what is done between them, by number."""
    name = row.name if warp == row.first_warp else ""
    yield text(_LEFT - 8, top + 12, f"{name}  warp {warp}".strip(), "", "end")
    shade = f"warp{(warp - row.first_warp) % 2}"
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
    roles = sum(not isinstance(part, Pipeline) for part in in_order(kernel))
    yield text(
        20,
        24,
        f"{roles} roles, {len(with_contents(kernel.pipelines))} rings, {tiles} tiles",
        "",
        "start",
    )
    entries = [
        ("free", "stage is free"),
        ("copy", "copy under way"),
        ("full", "full, not yet given back"),
        ("warp0", "warp at work"),
        ("wait", "waits"),
        ("asked", "asks for a copy"),
    ]
    yield from legend(entries)


def main(path: Path) -> None:
    """Run, check and draw."""
    kernel, roles, found = drawn()
    found.check_order()
    path.write_text(picture(kernel, roles, found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
