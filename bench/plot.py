"""A picture of drawn sizes: how much of the ceiling each reached, over what the ceiling takes.

python -m bench.plot docs/benchmarks/unseen.json unseen.svg
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

from bench.row import Row, read_rows
from bench.table import US

PANEL, GAP, LEFT, TOP = (215, 120), (20, 34), 34, 24
"""Width and height of a problem's panel, what lies between two, and what is left for numbers."""

ACROSS = 4
"""Panels side by side."""

SHARES, TIMES = (40.0, 110.0), (3.0, 1000.0)
"""What is drawn: per cent of the ceiling, and its microseconds, by their logarithm."""

STYLE = """
text { font: 11px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1c2127; }
.quiet { fill: #5c6670; } .grid { stroke: #d5dae0; } .ground { fill: #ffffff; }
.us { fill: #2f6db3; } .peer { fill: none; stroke: #e0962f; stroke-width: 1.2; }
@media (prefers-color-scheme: dark) {
  text { fill: #dfe4e9; } .quiet { fill: #98a2ad; } .grid { stroke: #353c44; }
  .ground { fill: #14171b; } .us { fill: #68a6ea; } .peer { stroke: #d08c30; }
}
"""


def picture(rows: Sequence[Row]) -> str:
    """An SVG with a panel for each problem: a dot for each of our times, a ring for each peer's."""
    problems: dict[str, list[Row]] = {}
    for row in rows:
        if row.us and row.ceiling_us:
            problems.setdefault(row.problem, []).append(row)
    down = math.ceil(len(problems) / ACROSS)
    width = LEFT + ACROSS * (PANEL[0] + GAP[0])
    height = TOP + down * (PANEL[1] + GAP[1])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
        f"<title>Share of the ceiling at drawn sizes</title><style>{STYLE}</style>",
        f'<rect width="{width}" height="{height}" class="ground"/>',
        *(_panel(number, name, found) for number, (name, found) in enumerate(problems.items())),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _panel(number: int, name: str, rows: Sequence[Row]) -> str:
    left = LEFT + number % ACROSS * (PANEL[0] + GAP[0])
    top = TOP + number // ACROSS * (PANEL[1] + GAP[1])
    parts = [f'<text x="{left}" y="{top - 6}">{escape(name)}</text>']
    for share in (50, 75, 100):
        y = top + _down(share)
        parts.append(f'<path d="M{left} {y:.1f} h{PANEL[0]}" class="grid"/>')
        if number % ACROSS == 0:
            parts.append(_words(left - 4, y + 4, "end", f"{share}"))
    for us, anchor in ((10, "middle"), (100, "middle"), (1000, "end")):
        words = f"{us} µs" if us == 1000 else f"{us}"
        parts.append(_words(left + _along(us), top + PANEL[1] + 12, anchor, words))
    parts += [_mark(left, top, row) for row in rows if row.us and row.ceiling_us]
    return "\n".join(parts)


def _mark(left: float, top: float, row: Row) -> str:
    assert row.us
    assert row.ceiling_us
    share = 100 * row.ceiling_us / row.us
    x, y = left + _along(row.ceiling_us), top + _down(share)
    kind, radius = ("us", 2.2) if row.impl == US else ("peer", 2.6)
    said = f"{'x'.join(map(str, row.shape))} {row.dtype}, {row.impl}: {row.us} µs, {share:.0f} %"
    circle = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" class="{kind}">'
    return f"{circle}<title>{escape(said)}</title></circle>"


def _words(x: float, y: float, anchor: str, words: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="quiet">{words}</text>'


def _down(share: float) -> float:
    least, most = SHARES
    return PANEL[1] * (most - min(max(share, least), most)) / (most - least)


def _along(us: float) -> float:
    least, most = map(math.log, TIMES)
    return PANEL[0] * (min(max(math.log(us), least), most) - least) / (most - least)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path, help="what `bench.unseen --keep` wrote")
    parser.add_argument("picture", type=Path, help="the SVG to write")
    asked = parser.parse_args()
    asked.picture.write_text(picture(read_rows(asked.rows)))


if __name__ == "__main__":
    main()
