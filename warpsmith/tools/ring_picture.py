"""Draws the stages and phases of a ring over time, from a run of its kernel on the simulator.

python -m warpsmith.tools.ring_picture docs/pictures/ring.svg
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from warpsmith import DataType, FusionDefinition, LoadStoreOpType, MemoryType, ParallelType
from warpsmith.schedule.rings import circular_buffer
from warpsmith.schedule.transforms import parallelize, set_memory_type
from warpsmith.tools.drawing import Scale, axis, bar, framed, legend, text
from warpsmith.tools.ring_spans import Event, Ring, Span, read_ring
from warpsmith.tools.timelines import planned
from warpsmith.tools.timelines import timeline as traced

ROWS, COLUMNS = 8, 500
STAGES, PREFETCH = 3, 2

_LEFT: Final = 120
_LANE: Final = 14
_STAGE: Final = 68  # from one stage to the next
_TOP: Final = 76


def scheduled_ring() -> FusionDefinition:
    """The example of docs/rings.md."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, DataType.Float)
        y = fd.ops.silu(x)
        fd.add_output(y)
        tile = x.cache_after(op_type=LoadStoreOpType.tma)
        set_memory_type(tile, MemoryType.shared)
        y.split(1, 64)
        y.split(0, 8)
        y.reorder({1: 2, 2: 1})
        y.axis(0).parallelize(ParallelType.grid_x)
        fd.sched.transform_like(y)
        fd.sched.parallelize_like(y)
        fd.sched.inline_at(y, 2, selected_tensors=[tile])
        circular_buffer(tile, STAGES, PREFETCH)
        parallelize(tile, -2, ParallelType.tma)
        parallelize(tile, -1, ParallelType.tma)
        y.axis(-1).parallelize(ParallelType.block_x)
    return fd


def timeline() -> list[Event]:
    """The events of one block of the kernel on the simulator, which finds nothing wrong."""
    shapes = [(ROWS, COLUMNS)]
    return traced(planned(scheduled_ring(), shapes), shapes)


def picture(ring: Ring) -> str:
    """The ring as SVG: a band a stage, with a lane for its copies and one for each warp."""
    lanes = 1 + len(ring.warps)
    bottom = _TOP + ring.stages * _STAGE
    height = bottom + (len(ring.warps) + 1) * (_LANE + 4) + 56
    x = Scale(ring.end, _LEFT)
    lines = [*_head(ring)]
    for stage in range(ring.stages):
        lines += _stage(ring, stage, _TOP + stage * _STAGE, lanes * _LANE, x)
    lines += _elected(ring, bottom, x)
    for place, warp in enumerate(ring.warps):
        top = bottom + (place + 1) * (_LANE + 4)
        lines.append(text(_LEFT - 8, top + 11, f"warp {warp} waits", "quiet", "end"))
        lines += [bar(x, span, top, _LANE, "wait") for span in ring.waits[warp]]
    lines += axis(height - 34, x)
    return framed(height, f"A ring of {ring.stages} stages on the simulator", lines)


def _stage(ring: Ring, stage: int, top: int, height: int, x: Scale) -> Iterator[str]:
    """One band: grey is free, green holds data that has landed."""
    yield text(_LEFT - 8, top + 11, f"stage {stage}  copy", "", "end")
    for place, warp in enumerate(ring.warps):
        yield text(_LEFT - 8, top + 11 + (place + 1) * _LANE, f"warp {warp}", "quiet", "end")
    yield bar(x, Span(0, ring.end), top, height, "free")
    for turn in ring.of_stage(stage):
        released = max(span.end for span in turn.uses.values())
        yield bar(x, Span(turn.copy.end, released), top, height, "full")
        yield bar(x, turn.copy, top, _LANE, "copy")
        middle = (x(turn.copy.begin) + x(turn.copy.end)) / 2
        yield text(middle, top + 11, f"phase {turn.phase}", "", "middle")
        for place, warp in enumerate(ring.warps):
            lane = top + (place + 1) * _LANE
            yield bar(x, turn.uses[warp], lane, _LANE - 1, f"warp{place % 2}")
            middle = (x(turn.uses[warp].begin) + x(turn.uses[warp].end)) / 2
            yield text(middle, lane + 10, str(turn.phase), "inside", "middle")


def _elected(ring: Ring, top: int, x: Scale) -> Iterator[str]:
    """Where the elected thread finds stages empty, and how long it had to wait for that."""
    yield text(_LEFT - 8, top + 11, "elected thread", "quiet", "end")
    yield from (bar(x, span, top, _LANE, "wait") for span in ring.held)
    for turn in ring.turns:
        at = x(turn.asked)
        yield f'<path class="asked" d="M{at} {top} l4 {_LANE} h-8 z"/>'
        yield text(at, top - 3, str(turn.stage), "quiet", "middle")


def _head(ring: Ring) -> Iterator[str]:
    title = f"{ring.stages} stages, {len(ring.turns)} iterations, {len(ring.warps)} warps"
    yield text(20, 24, title, "", "start")
    entries = [
        ("free", "free"),
        ("copy", "copy in flight"),
        ("full", "landed, not yet released"),
        ("warp0", "in use by a warp"),
        ("wait", "waits"),
        ("asked", "elected thread finds a stage empty, and asks"),
    ]
    yield from legend(entries)


def main(path: Path) -> None:
    """Run, check and draw."""
    ring = read_ring(timeline())
    ring.check_order()
    path.write_text(picture(ring))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
