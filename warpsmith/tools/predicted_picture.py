"""Draws what the model of norms backward predicts against what was measured.

python -m warpsmith.tools.predicted_picture PICTURE.svg
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from warpsmith.schedulers import inner_outer
from warpsmith.schedulers.inner_outer.model import Shape, Work, predicted_us
from warpsmith.schedulers.timed import Timing, timings
from warpsmith.targets.hopper import H200
from warpsmith.tools.drawing import WIDTH, framed, legend, text

HEIGHT, LEFT, TOP, BOTTOM = 620, 60, 80, 560
LEAST, MOST = 10.0, 700.0
"""Microseconds at both ends of both axes."""


WIDE = 8
"""Elements of the longest vector that rows are made of."""


def measured() -> list[Timing[Work, Shape]]:
    """All that the scheduler keeps of rows for which the model was made: of whole vectors."""
    kept = timings(inner_outer.__name__, Work, Shape, H200)
    return [timing for timing in kept if timing.work.length % WIDE == 0]


def picture(found: Sequence[Timing[Work, Shape]]) -> str:
    """A dot for each kernel on two scales of logarithms, and the line on which both are equal."""
    words = "Norms backward on an H200: microseconds predicted (across) and measured (up)"
    content = [
        text(20, 28, words, "", "start"),
        *legend([("warp0", "waves"), ("copy", "with a role that loads")]),
        *_axes(),
        *_dots(found),
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


def _dots(found: Sequence[Timing[Work, Shape]]) -> Iterator[str]:
    """One path of small squares a strategy, so that thousands of kernels stay a small file."""
    for kind, role in (("warp0", False), ("copy", True)):
        corners = (
            f"M{_x(_predicted(timing)) - 2:.0f} {_y(timing.us) - 2:.0f}h4v4h-4z"
            for timing in found
            if bool(timing.shape.role) is role
        )
        yield f'<path class="{kind}" d="{"".join(dict.fromkeys(corners))}"/>'


def _predicted(timing: Timing[Work, Shape]) -> float:
    return predicted_us(timing.work, timing.shape, H200)


def _x(us: float) -> float:
    return round(LEFT + _share(us) * (WIDTH - LEFT - 30), 1)


def _y(us: float) -> float:
    return round(BOTTOM - _share(us) * (BOTTOM - TOP), 1)


def _share(us: float) -> float:
    return math.log(us / LEAST) / math.log(MOST / LEAST)


def main(arguments: Sequence[str]) -> None:
    (target,) = map(Path, arguments)
    target.write_text(picture(measured()))


if __name__ == "__main__":
    main(sys.argv[1:])
