"""Parts of the pictures of timelines: a scale of cycles, bars, words, an axis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from warpsmith.tools.timelines import Span

WIDTH: Final = 1000

STYLE: Final = """
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


class Scale:
    """Places of cycles across the picture, from `left` on."""

    def __init__(self, end: int, left: int) -> None:
        self.end = end
        self.left = left
        self._factor = (WIDTH - left - 20) / end

    def __call__(self, cycle: int) -> float:
        return round(self.left + cycle * self._factor, 1)


def framed(height: int, title: str, content: list[str]) -> str:
    """The whole SVG."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">',
        f"<title>{title}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="ground" width="{WIDTH}" height="{height}"/>',
        *content,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def legend(entries: list[tuple[str, str]]) -> Iterator[str]:
    """Kinds of bars with what they mean, in one line."""
    left = 20.0
    for kind, words in entries:
        yield f'<rect class="{kind}" x="{left}" y="40" width="14" height="12"/>'
        yield text(left + 20, 50, words, "", "start")
        left += 44 + 6.2 * len(words)


def axis(top: int, x: Scale) -> Iterator[str]:
    """Cycles along the bottom."""
    yield f'<path class="line" fill="none" d="M{x.left} {top} H{x(x.end)}"/>'
    for cycle in range(0, x.end, 500):
        yield f'<path class="line" d="M{x(cycle)} {top} v5"/>'
        yield text(x(cycle), top + 18, str(cycle), "quiet", "middle")
    yield text(x.left - 8, top + 18, "cycles", "quiet", "end")


def bar(x: Scale, span: Span, top: int, height: int, kind: str) -> str:
    """From one cycle to another, one unit wide at least."""
    left, width = x(span.begin), round(max(x(span.end) - x(span.begin), 1), 1)
    return f'<rect class="{kind}" x="{left}" y="{top}" width="{width}" height="{height}"/>'


def text(x: float, y: float, words: str, kind: str, anchor: str) -> str:
    """Words at a place; `kind` is a class of the style, or empty."""
    style = f' class="{kind}"' if kind else ""
    return f'<text{style} x="{round(x, 1)}" y="{y}" text-anchor="{anchor}">{words}</text>'
