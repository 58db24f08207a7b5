"""Pictures of what warps and stages do over time, from a run of their kernel on the simulator.

Pages about compiled calls (`warpsmith/page`) have the same timelines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pages.examples import RING_SHAPE, SHAPE, scheduled_ring, scheduled_roles, zeros
from warpsmith import knobs
from warpsmith.engine.facts import facts_of
from warpsmith.engine.smaller import smaller
from warpsmith.page.lanes import WIDTH, drawn, kinds_of
from warpsmith.page.markup import Markup, asset, tag
from warpsmith.page.timeline import WORK, Timeline, timeline_of

_TOP: Final = 34.0
_SIGN: Final = 6.8

EXAMPLES: Final = {
    "ring": (scheduled_ring, [RING_SHAPE]),
    "roles": (scheduled_roles, [SHAPE, SHAPE]),
}
"""By name of a picture, its kernel, and the shapes of that one's inputs."""


def example(name: str) -> Timeline:
    """One block of a picture's kernel.

    Raises:
        ValueError: it has no timeline; the reason.
    """
    fusion, shapes = EXAMPLES[name]
    executable, inputs = fusion().executable(scheduled=True), zeros(shapes)
    call = executable.plan_for(inputs)
    launch = facts_of(call, 0).kernels[0].choice.launch
    assert launch is not None, "the kernel has work to do"
    sizes = smaller(call, 0, executable.binder, inputs, knobs.current(), WORK)
    found = timeline_of(sizes, launch.roles)
    if isinstance(found, str):
        raise ValueError(found)
    return found


def picture(timeline: Timeline) -> Markup:
    """A timeline with what its colours mean, as a file of its own."""
    content, height = drawn(timeline, _TOP)
    return tag(
        "svg",
        tag("title", "Warps and stages on the simulator"),
        tag("style", asset("drawing.css")),
        tag("rect", width=WIDTH, height=height, class_="ground"),
        *_legend(timeline),
        *content,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH:.0f} {height:.0f}",
        class_="timeline",
    )


def _legend(timeline: Timeline) -> Iterator[Markup]:
    left = 4.0
    for kind, words in kinds_of(timeline):
        yield tag("rect", x=left, y=8, width=14, height=11, class_=kind)
        yield tag("text", words, x=left + 20, y=18)
        left += 44 + _SIGN * len(words)


def written(name: str, page: str = "") -> str:
    """The picture as a file, whatever it was."""
    return picture(example(name)) + "\n"
