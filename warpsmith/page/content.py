"""All that a page shows of a compiled call, as values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from warpsmith.engine.classes import launched
from warpsmith.engine.facts import CallFacts, KernelFacts, Price, facts_of, prices_of
from warpsmith.engine.launches import CallPlan
from warpsmith.engine.origins import CudaLine, cuda_lines
from warpsmith.engine.smaller import Smaller
from warpsmith.page.program import ProgramGraph, program_graph
from warpsmith.page.sources import Source, sources_of
from warpsmith.page.timeline import Timeline, timeline_of
from warpsmith.values import dataclass

MOST_CUTS = 40
"""Cuts that are priced: each asks schedulers for a kernel that is not there."""

MOST_TIMELINES = 6
"""Kernels that are run on the simulator."""

Sizes = Callable[[int], Iterable[Smaller]]
"""Of a kernel by its number, sizes at which the simulator may run it; asked for those only that
have a timeline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelContent:
    """A kernel with its text; one that several parts of the program share is here once.

    Attributes:
        facts: of the first part.
        parts: numbers of the parts that it computes.
        cuda: empty where nothing is launched.
        timeline: of one block; or why there is none.
    """

    facts: KernelFacts
    price: Price | None
    parts: tuple[int, ...]
    cuda: tuple[CudaLine, ...]
    timeline: Timeline | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A page.

    Attributes:
        title: what was compiled.
        prices: of each part.
        sources: the functions of its user's that it comes from.
    """

    title: str
    facts: CallFacts
    prices: tuple[Price | None, ...]
    graph: ProgramGraph
    kernels: tuple[KernelContent, ...]
    sources: tuple[Source, ...]

    @property
    def crossing(self) -> int:
        """Bytes that kernels write and others read, each time."""
        written = {t.name: t.size for kernel in self.facts.kernels for t in kernel.writes}
        reads = [t.name for kernel in self.facts.kernels for t in kernel.reads]
        between = written.keys() & set(reads)
        return sum(written[name] * (1 + reads.count(name)) for name in between)

    @property
    def moved(self) -> int:
        """Bytes that all kernels read and write."""
        tensors = (t for kernel in self.facts.kernels for t in (*kernel.reads, *kernel.writes))
        return sum(tensor.size for tensor in tensors)

    @property
    def us(self) -> float | None:
        """Microseconds of all kernels; None where somebody scheduled one by hand."""
        known = [
            price
            for kernel, price in zip(self.facts.kernels, self.prices, strict=True)
            if kernel.choice.launch is not None
        ]
        times = [price.us for price in known if price is not None]
        return sum(times) if len(times) == len(known) else None


def content_of(call: CallPlan, title: str, sizes: Sizes) -> Content:
    """What is shown of a call; kernels are run on the simulator for it."""
    facts = facts_of(call, MOST_CUTS)
    prices = prices_of(call)
    texts: dict[int, tuple[CudaLine, ...]] = {}
    parts: dict[str, list[int]] = {}
    for number, (planned, launch) in enumerate(launched(call)):
        name = "" if launch is None else launch.compiled.name
        parts.setdefault(name or f"nothing {number}", []).append(number)
        texts[number] = () if launch is None else cuda_lines(planned, launch)
    kernels: list[KernelContent] = []
    for numbers in parts.values():
        first = facts.kernels[numbers[0]]
        kernels.append(
            KernelContent(
                facts=first,
                price=prices[numbers[0]],
                parts=tuple(numbers),
                cuda=_together([texts[number] for number in numbers]),
                timeline=_timeline(first, sizes, len(kernels)),
            )
        )
    graph = program_graph(call, facts.kernels, facts.cuts)
    lines = {line for kernel in kernels for each in kernel.cuda for line in each.lines}
    lines |= {line for node in graph.nodes for line in node.lines}
    return Content(
        title=title,
        facts=facts,
        prices=prices,
        graph=graph,
        kernels=tuple(kernels),
        sources=sources_of(lines),
    )


def _timeline(kernel: KernelFacts, sizes: Sizes, place: int) -> Timeline | str:
    launch = kernel.choice.launch
    if launch is None:
        return "nothing is launched"
    if place >= MOST_TIMELINES:
        return f"only the first {MOST_TIMELINES} kernels are run on the simulator"
    return timeline_of(sizes(kernel.number), launch.roles)


def _together(texts: Sequence[tuple[CudaLine, ...]]) -> tuple[CudaLine, ...]:
    """One text of several that are the same, with the lines of all."""
    return tuple(
        CudaLine(same[0].text, tuple(sorted({line for each in same for line in each.lines})))
        for same in zip(*texts, strict=True)
    )
