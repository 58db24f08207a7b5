"""A timeline as SVG: a lane for each warp, and for copies that are under way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from warpsmith.page.markup import Markup, tag
from warpsmith.page.timeline import Lane, Span, Timeline

WIDTH: Final = 1000.0
_LEFT: Final = 150.0
_LANE: Final = 15.0
_COPY: Final = 8.0
_HEAD: Final = 20.0
_AXIS: Final = 30.0
_TICKS: Final = 8
_SIGN: Final = 6.8

MEANINGS: Final = (
    ("run", "runs"),
    ("product", "multiplies on tensor cores"),
    ("wait", "waits"),
    ("load", "copy into shared memory"),
    ("store", "copy out of shared memory"),
    ("full", "stage is full; the number tells its fills apart"),
)
"""Kinds of spans, in words."""


def kinds_of(timeline: Timeline) -> list[tuple[str, str]]:
    """Those of its spans, in words."""
    used = {span.kind for _, group in timeline.groups for lane in group for span in lane.spans}
    return [(kind, words) for kind, words in MEANINGS if kind in used]


def lanes(timeline: Timeline) -> Markup:
    """The whole timeline."""
    content, height = drawn(timeline, 4.0)
    return tag(
        "svg",
        *content,
        viewBox=f"0 0 {WIDTH:.0f} {height:.0f}",
        class_="timeline",
        role="img",
        aria_label="timeline of one block",
    )


def drawn(timeline: Timeline, y: float) -> tuple[list[Markup], float]:
    """All lanes from a height on, and where they end."""
    content: list[Markup] = []
    for name, group in timeline.groups:
        content.append(tag("text", name, x=4, y=y + 13, class_="agent"))
        y += _HEAD
        for lane in group:
            height = _LANE if lane.name else _COPY
            content += _lane(lane, y, height, timeline.end)
            y += height + 3
        y += 6
    content += _axis(y, timeline.end)
    return content, y + _AXIS


def _x(cycle: float, end: int) -> float:
    return round(_LEFT + cycle / end * (WIDTH - _LEFT - 16), 2)


def _lane(lane: Lane, y: float, height: float, end: int) -> Iterator[Markup]:
    if lane.name:
        yield tag("text", lane.name, x=_LEFT - 8, y=y + 11, text_anchor="end", class_="quiet")
    for span in lane.spans:
        yield _bar(span, y, height, end)
        left, right = _x(span.begin, end), _x(span.end, end)
        if span.number is not None and right - left > _SIGN * len(str(span.number)):
            middle = (left + right) / 2
            yield tag("text", span.number, x=middle, y=y + 11, text_anchor="middle")


def _bar(span: Span, y: float, height: float, end: int) -> Markup:
    left = _x(span.begin, end)
    about = tag("title", f"{span.about}: cycles {span.begin} to {span.end}")
    width = max(round(_x(span.end, end) - left, 2), 0.6)
    return tag("rect", about, x=left, y=y, width=width, height=height, class_=span.kind)


def _axis(y: float, end: int) -> Iterator[Markup]:
    step = tick(end)
    yield tag("path", d=f"M{_LEFT} {y} H{WIDTH - 16}", class_="axis")
    yield tag("text", "cycles", x=_LEFT - 8, y=y + 16, text_anchor="end", class_="quiet")
    for cycle in range(0, end + 1, step):
        x = _x(cycle, end)
        yield tag("path", d=f"M{x} {y} v4", class_="axis")
        yield tag("text", f"{cycle:,}", x=x, y=y + 16, text_anchor="middle", class_="quiet")


def tick(end: int) -> int:
    """A round number of cycles between marks: 1, 2 or 5 times a power of ten."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if end / (step * factor) <= _TICKS:
                return step * factor
        step *= 10
