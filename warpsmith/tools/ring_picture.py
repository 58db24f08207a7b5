"""Draws the slots and phases of a ring over time, from a run of its kernel on the simulator.

python -m warpsmith.tools.ring_picture docs/pictures/ring.svg
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from warpsmith import DataType, FusionDefinition, LoadStoreOpType, MemoryType, ParallelType
from warpsmith.schedule.rings import circular_buffer
from warpsmith.schedule.transforms import parallelize, set_memory_type
from warpsmith.tools.ring_spans import Event, Ring, Span, read_ring

ROWS, COLUMNS = 8, 500
STAGES, PREFETCH = 3, 2

_LEFT: Final = 120
_WIDTH: Final = 1000
_LANE: Final = 14
_SLOT: Final = 68  # from one slot to the next
_TOP: Final = 76
_STYLE: Final = """
  text { font: 12px Helvetica, Arial, sans-serif; fill: #222 }
  .ground { fill: #fff } .quiet { fill: #666 } .line { stroke: #999 }
  .free { fill: #f0f0f0 } .full { fill: #cfe3cf } .copy { fill: #f2b56b }
  .warp0 { fill: #3f74b5 } .warp1 { fill: #6f9fd8 } .wait { fill: #c9c9c9 }
  .asked { fill: #c0392b } .inside { fill: #fff }
  @media (prefers-color-scheme: dark) {
    text { fill: #ddd } .ground { fill: #15181c } .quiet { fill: #999 } .line { stroke: #666 }
    .free { fill: #24282e } .full { fill: #2f4a35 } .copy { fill: #b87a2c }
    .wait { fill: #4a4f57 } .asked { fill: #ff7b6b } .inside { fill: #fff }
  }
"""


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
    import numpy as np

    from warpsmith import knobs, sim
    from warpsmith.engine.executable import Executable

    executable = Executable(scheduled_ring().fusion, scheduled=True)
    inputs = [np.zeros((ROWS, COLUMNS), np.float32)]
    (launch,) = executable.plan_for(inputs, knobs.current()).launches
    shape = {"dtype": "float32", "shape": [ROWS, COLUMNS]}
    maps = [
        {
            "buffer": each.tensor,
            "dtype": "float32",
            "dims": list(each.sizes),
            "strides_bytes": list(each.strides),
            "box": list(each.box),
        }
        for each in launch.maps
    ]
    source, target = launch.pointers
    spec: dict[str, Any] = {
        "grid": list(launch.grid),
        "block": list(launch.block),
        "shared_bytes": launch.shared_bytes,
        "buffers": {source: shape | {"init": "randn"}, target: shape | {"init": "undefined"}},
        "params": [
            *({"ptr": name} for name in launch.pointers),
            *({"tensormap": each} for each in maps),
            *({"i32": value} for value in launch.constants),
        ],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "timeline.json"
        report = sim.run(str(launch.compiled.asm["ptx"]), spec, schedules=1, trace=path)
        if report.verdict != "clean":
            raise ValueError(str(report))
        events: list[Event] = json.loads(path.read_text())["traceEvents"]
    return events


def picture(ring: Ring) -> str:
    """The ring as SVG: a band a slot, with a lane for its copies and one for each warp."""
    lanes = 1 + len(ring.warps)
    bottom = _TOP + ring.slots * _SLOT
    height = bottom + (len(ring.warps) + 1) * (_LANE + 4) + 56
    x = _Scale(ring.end)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}">',
        f"<title>A ring of {ring.slots} slots on the simulator</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="ground" width="{_WIDTH}" height="{height}"/>',
        *_legend(ring),
    ]
    for slot in range(ring.slots):
        lines += _slot(ring, slot, _TOP + slot * _SLOT, lanes * _LANE, x)
    lines += _elected(ring, bottom, x)
    for place, warp in enumerate(ring.warps):
        top = bottom + (place + 1) * (_LANE + 4)
        lines.append(_text(_LEFT - 8, top + 11, f"warp {warp} waits", "quiet", "end"))
        lines += [_bar(x, span, top, _LANE, "wait") for span in ring.waits[warp]]
    lines += [*_axis(ring, height - 34, x), "</svg>"]
    return "\n".join(lines) + "\n"


class _Scale:
    """Places of cycles across the picture."""

    def __init__(self, end: int) -> None:
        self.end = end
        self._factor = (_WIDTH - _LEFT - 20) / end

    def __call__(self, cycle: int) -> float:
        return round(_LEFT + cycle * self._factor, 1)


def _slot(ring: Ring, slot: int, top: int, height: int, x: _Scale) -> Iterator[str]:
    """One band: grey is free, green holds data that has landed."""
    yield _text(_LEFT - 8, top + 11, f"slot {slot}  copy", "", "end")
    for place, warp in enumerate(ring.warps):
        yield _text(_LEFT - 8, top + 11 + (place + 1) * _LANE, f"warp {warp}", "quiet", "end")
    yield _bar(x, Span(0, ring.end), top, height, "free")
    for turn in ring.of_slot(slot):
        released = max(span.end for span in turn.uses.values())
        yield _bar(x, Span(turn.copy.end, released), top, height, "full")
        yield _bar(x, turn.copy, top, _LANE, "copy")
        middle = (x(turn.copy.begin) + x(turn.copy.end)) / 2
        yield _text(middle, top + 11, f"phase {turn.phase}", "", "middle")
        for place, warp in enumerate(ring.warps):
            lane = top + (place + 1) * _LANE
            yield _bar(x, turn.uses[warp], lane, _LANE - 1, f"warp{place % 2}")
            middle = (x(turn.uses[warp].begin) + x(turn.uses[warp].end)) / 2
            yield _text(middle, lane + 10, str(turn.phase), "inside", "middle")


def _elected(ring: Ring, top: int, x: _Scale) -> Iterator[str]:
    """Where the elected thread finds slots empty, and how long it had to wait for that."""
    yield _text(_LEFT - 8, top + 11, "elected thread", "quiet", "end")
    yield from (_bar(x, span, top, _LANE, "wait") for span in ring.held)
    for turn in ring.turns:
        at = x(turn.asked)
        yield f'<path class="asked" d="M{at} {top} l4 {_LANE} h-8 z"/>'
        yield _text(at, top - 3, str(turn.slot), "quiet", "middle")


def _legend(ring: Ring) -> Iterator[str]:
    title = f"{ring.slots} slots, {len(ring.turns)} iterations, {len(ring.warps)} warps"
    yield _text(20, 24, title, "", "start")
    entries = [
        ("free", "free"),
        ("copy", "copy in flight"),
        ("full", "landed, not yet released"),
        ("warp0", "in use by a warp"),
        ("wait", "waits"),
        ("asked", "elected thread finds a slot empty, and asks"),
    ]
    left = 20.0
    for kind, words in entries:
        yield f'<rect class="{kind}" x="{left}" y="40" width="14" height="12"/>'
        yield _text(left + 20, 50, words, "", "start")
        left += 44 + 6.2 * len(words)


def _axis(ring: Ring, top: int, x: _Scale) -> Iterator[str]:
    yield f'<path class="line" fill="none" d="M{_LEFT} {top} H{x(ring.end)}"/>'
    for cycle in range(0, ring.end, 500):
        yield f'<path class="line" d="M{x(cycle)} {top} v5"/>'
        yield _text(x(cycle), top + 18, str(cycle), "quiet", "middle")
    yield _text(_LEFT - 8, top + 18, "cycles", "quiet", "end")


def _bar(x: _Scale, span: Span, top: int, height: int, kind: str) -> str:
    left, width = x(span.begin), round(max(x(span.end) - x(span.begin), 1), 1)
    return f'<rect class="{kind}" x="{left}" y="{top}" width="{width}" height="{height}"/>'


def _text(x: float, y: float, words: str, kind: str, anchor: str) -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text{style} x="{round(x, 1)}" y="{y}" text-anchor="{anchor}">{words}</text>'


def main(path: Path) -> None:
    """Run, check and draw."""
    ring = read_ring(timeline())
    ring.check_order()
    path.write_text(picture(ring))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
