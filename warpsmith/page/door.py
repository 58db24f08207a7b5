"""From a compiled call to its page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warpsmith import knobs
from warpsmith.engine.executable import Executable
from warpsmith.engine.launches import CallPlan
from warpsmith.engine.smaller import Smaller, smaller
from warpsmith.page.content import content_of
from warpsmith.page.html import page
from warpsmith.page.timeline import WORK


def page_of(
    call: CallPlan, executable: Executable, inputs: Sequence[object], title: str = ""
) -> str:
    """The page of a call that was planned for these inputs."""

    def sizes(number: int) -> Iterator[Smaller]:
        return smaller(call, number, executable.binder, inputs, knobs.current(), WORK)

    return page(content_of(call, title or "A compiled call", sizes))
