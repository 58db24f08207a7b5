"""Draws what the model of norms backward predicts against what was measured.

python -m warpsmith.tools.predicted_picture DATA.json PICTURE.svg
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsmith.schedulers.inner_outer.predict import Shape, Work, predicted_us
from warpsmith.tools.drawing import WIDTH, framed, legend, text

SM_COUNT = 132
OPERATIONS = {
    ("layer_norm_bwd", "bfloat16"): 19,
    ("layer_norm_bwd", "float"): 16,
    ("rms_norm_bwd", "bfloat16"): 15,
    ("rms_norm_bwd", "float"): 12,
}
"""On each element, as `rows_of` counts them in bench/norm_backward.py's programs."""

HEIGHT, LEFT, TOP, BOTTOM = 620, 60, 80, 560
LEAST, MOST = 10.0, 500.0
"""Microseconds at both ends of both axes."""


@dataclass(frozen=True, slots=True)
class Timing:
    """One kernel's work and shape, and the microseconds that it and the second kernel took."""

    work: Work
    shape: Shape
    us: float

    @property
    def predicted(self) -> float:
        return predicted_us(self.work, self.shape, SM_COUNT)


def timings(content: Mapping[str, Any]) -> list[Timing]:
    """Those of `docs/lessons/data/norm-backward-params.json`."""
    named = (dict(zip(content["columns"], row, strict=True)) for row in content["rows"])
    return [_timing(row) for row in named]


def _timing(row: Mapping[str, Any]) -> Timing:
    item = 2 if row["dtype"] == "bfloat16" else 4
    work = Work(
        rows=row["rows"],
        length=row["columns"],
        loaded=2 * item,
        stored=item,
        summed=8 if row["problem"] == "layer_norm_bwd" else 4,
        operations=OPERATIONS[row["problem"], row["dtype"]],
    )
    shape = Shape(
        threads=row["threads"],
        elements=row["elements"],
        side=row["side"],
        kept=row["kept"],
        slots=row["slots"],
        blocks_per_sm=row["blocks_per_sm"],
        role=bool(row["role"]),
        apart=bool(row["role"]),
        cached=not row["reread"],
    )
    return Timing(work, shape, row["us"])


def picture(found: Sequence[Timing]) -> str:
    """A dot for each kernel on two scales of logarithms, and the line on which both are equal."""
    words = "Norms backward on an H200: microseconds predicted (across) and measured (up)"
    content = [
        text(20, 28, words, "", "start"),
        *legend([("warp0", "waves"), ("copy", "with a role that loads")]),
        *_axes(),
        *(_dot(timing) for timing in found),
    ]
    return framed(HEIGHT, words, content)


def _axes() -> Iterator[str]:
    ends = f'x1="{_x(LEAST)}" y1="{_y(LEAST)}" x2="{_x(MOST)}" y2="{_y(MOST)}"'
    yield f'<line class="line" {ends}/>'
    for us in (10, 20, 50, 100, 200, 500):
        yield f'<line class="line" x1="{LEFT}" x2="{LEFT - 5}" y1="{_y(us)}" y2="{_y(us)}"/>'
        yield text(LEFT - 10, _y(us) + 4, str(us), "quiet", "end")
        yield f'<line class="line" x1="{_x(us)}" x2="{_x(us)}" y1="{BOTTOM}" y2="{BOTTOM + 5}"/>'
        yield text(_x(us), BOTTOM + 20, str(us), "quiet", "middle")


def _dot(timing: Timing) -> str:
    kind = "copy" if timing.shape.role else "warp0"
    return f'<circle class="{kind}" cx="{_x(timing.predicted)}" cy="{_y(timing.us)}" r="2.5"/>'


def _x(us: float) -> float:
    return round(LEFT + _share(us) * (WIDTH - LEFT - 30), 1)


def _y(us: float) -> float:
    return round(BOTTOM - _share(us) * (BOTTOM - TOP), 1)


def _share(us: float) -> float:
    return math.log(us / LEAST) / math.log(MOST / LEAST)


def main(arguments: Sequence[str]) -> None:
    data, target = map(Path, arguments)
    target.write_text(picture(timings(json.loads(data.read_text()))))


if __name__ == "__main__":
    main(sys.argv[1:])
