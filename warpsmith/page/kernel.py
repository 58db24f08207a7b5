"""The part of a page about one kernel."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from warpsmith.engine.facts import Choice, LaunchFacts, Price
from warpsmith.engine.role_facts import RingRow
from warpsmith.page.content import Content, KernelContent
from warpsmith.page.lanes import kinds_of, lanes
from warpsmith.page.listing import Names, listing
from warpsmith.page.markup import Markup, joined, tag
from warpsmith.page.program import size_text
from warpsmith.page.tables import pairs, row, table
from warpsmith.page.timeline import Timeline
from warpsmith.targets.family import WARP


def kernel_section(kernel: KernelContent, content: Content, names: Names) -> Markup:
    """Choice, agents, pipelines, timeline and text of a kernel."""
    choice, number = kernel.facts.choice, kernel.facts.number
    parts = ", ".join(map(str, kernel.parts))
    several = f"kernels {parts}, which are alike" if len(kernel.parts) > 1 else f"kernel {number}"
    scheduler = choice.scheduler or "scheduled by hand"
    anchors = [tag("span", id=f"kernel-{other}") for other in kernel.parts[1:]]
    return tag(
        "section",
        *anchors,
        tag("h2", f"{several[0].upper()}{several[1:]}: {scheduler}"),
        tag("p", _flow(kernel), class_="quiet"),
        *_body(kernel, content, names),
        id=f"kernel-{number}",
        class_="kernel",
    )


def _flow(kernel: KernelContent) -> str:
    reads = ", ".join(map(str, kernel.facts.reads)) or "nothing"
    return f"{reads} → {', '.join(map(str, kernel.facts.writes))}"


def _body(kernel: KernelContent, content: Content, names: Names) -> Iterator[Markup]:
    choice = kernel.facts.choice
    launch = choice.launch
    if launch is None:
        yield tag("p", "Nothing is launched: there is nothing to compute, to add up, or to move.")
        return
    yield tag(
        "div",
        tag("div", tag("h3", "Time"), *_time(kernel.price, choice)),
        tag("div", tag("h3", "Launch"), pairs(_launch(launch), "facts")),
        class_="columns",
    )
    yield tag("h3", "Agents and pipelines")
    yield table(("agent", "does", "warps", "threads", "registers"), _agents(launch), "agents")
    if launch.rings:
        heads = ("pipeline", "from, to", "stages", "a stage holds", "arrivals: full, empty")
        yield table(heads, map(_ring, launch.rings), "pipelines")
    yield tag("p", _shared(launch), class_="quiet")
    yield tag("h3", "Choice")
    yield from _choice(choice)
    yield tag("h3", "One block on the simulator")
    yield from _timeline(kernel.timeline)
    yield tag("h3", "CUDA and the Python that it comes from")
    yield listing(kernel.cuda, content.sources, names)


def _time(price: Price | None, choice: Choice) -> Iterator[Markup]:
    if price is None:
        yield tag("p", "No time is predicted of a schedule by hand.")
        return
    name, busiest = price.bounds[0]
    yield tag(
        "p",
        tag("b", f"{price.us:.4g} µs"),
        f" predicted, launch included; bound by {name}: {busiest:.4g} µs.",
    )
    bars = (row(each, _bar(us / price.us), f"{us:.3g} µs") for each, us in price.bounds if us > 0)
    yield tag("table", tag("tbody", *bars), class_="bars")
    if choice.compared:
        yield tag("p", "What was compared:", class_="quiet")
        rows = (row(each, f"{us:.4g} µs") for each, us in choice.compared)
        yield tag("table", tag("tbody", *rows), class_="compared")


def _bar(share: float) -> Markup:
    style = f"width:{min(max(share, 0.0), 1.0) * 100:.1f}%"
    return tag("div", tag("div", style=style, class_="full"), class_="bar")


def _launch(launch: LaunchFacts) -> Iterator[tuple[object, object]]:
    yield "name", launch.name
    yield "grid", " x ".join(map(str, launch.grid))
    yield "block", f"{' x '.join(map(str, launch.block))} threads"
    if launch.cluster_blocks > 1:
        yield "cluster", f"{launch.cluster_blocks} blocks"
    yield "registers", f"{launch.registers} a thread, {launch.spills} bytes spilled"
    yield "shared memory", f"{launch.shared_bytes:,} bytes a block"
    if launch.reserved_bytes > launch.shared_bytes:
        yield "spreads", f"each block asks for {launch.reserved_bytes:,} bytes"
    if launch.early:
        yield "starts", "while the kernel before it ends, and waits for it"
    if launch.together:
        yield "together", "all blocks run at once, and wait for each other"
    if launch.in_order:
        yield "order", "blocks wait for those with lower numbers that share their row"
    if launch.needs:
        yield "relies on", ", ".join(launch.needs)
    if launch.shortened:
        yield "proof", f"of loops cut to {launch.shortened} iterations"


def _agents(launch: LaunchFacts) -> Iterator[Markup]:
    if not launch.roles:
        count = prod(launch.block)
        warps = f"0 to {-(-count // WARP) - 1}"
        yield row("all threads", "loads, computes and stores", warps, count, launch.registers)
    for role in launch.roles:
        threads = "one" if role.threads == 1 else str(role.threads)
        groups = f", {role.groups} groups" if role.groups > 1 else ""
        warps = role.warps.removeprefix("warps ").removeprefix("warp ")
        yield row(role.name, f"{role.kind}{groups}", warps, threads, role.registers)


def _ring(ring: RingRow) -> Markup:
    size = sum(amount for _, amount in ring.stage_bytes)
    held = ", ".join(f"{name} {amount:,}" for name, amount in ring.stage_bytes)
    between = f"{ring.producer} → {' and '.join(ring.consumers)}" if ring.producer else "in place"
    empty = ring.empty or ("where blocks meet" if ring.around else "filled once")
    shared = "".join(f"; {name} by {how} to {n} blocks" for name, how, n in ring.shared)
    return row(
        ring.name,
        between,
        ring.stages,
        f"{size:,} bytes: {held}{shared}",
        f"{ring.full}, {empty}",
    )


def _shared(launch: LaunchFacts) -> str:
    words = [
        f"{name} from byte {start:,}, {size_text(size)}" for name, start, size in launch.shared
    ]
    told = [f"In shared memory: {'; '.join(words)}."] if words else []
    if launch.budgets:
        told.append(f"Registers: {launch.budgets}.")
    told += [f"{line[0].upper()}{line[1:]}." for line in launch.orders]
    told += [f"{name} is copied by the threads: {why}." for name, why in launch.left_to_threads]
    return " ".join(told)


def _choice(choice: Choice) -> Iterator[Markup]:
    yield from (tag("p", "Faster: ", line) for line in choice.advice)
    if choice.no_ring:
        yield tag("p", f"No loads run ahead: {choice.no_ring}.")
    columns = []
    if choice.parameters:
        shown = (tag("span", tag("i", name), f" {value}") for name, value in choice.parameters)
        columns.append(tag("div", tag("h4", "Parameters"), tag("p", *shown, class_="parameters")))
    if choice.words:
        printed = tag("pre", "\n".join(choice.words))
        columns.append(tag("div", tag("h4", "As nvFuser prints them"), printed))
    if choice.refusals:
        columns.append(
            tag("div", tag("h4", "Other schedulers"), pairs(choice.refusals, "facts refusals"))
        )
    yield tag("div", *columns, class_="columns narrow")


def _timeline(timeline: Timeline | str) -> Iterator[Markup]:
    if isinstance(timeline, str):
        yield tag("p", f"There is no timeline: {timeline}.")
        return
    grid = " x ".join(map(str, timeline.grid))
    hidden = f"; {timeline.hidden} more warps are not shown" if timeline.hidden else ""
    yield tag(
        "p",
        f"The same kernel with {timeline.sizes}: block {timeline.block} of a grid of {grid}"
        f"{hidden}. Cycles are those of the simulator's model: they tell what waits for what, and "
        "not how fast a GPU is.",
        class_="quiet",
    )
    keys = (
        joined(tag("span", class_=f"key {kind}"), f" {words}  ")
        for kind, words in kinds_of(timeline)
    )
    yield tag("p", *keys, class_="legend")
    yield lanes(timeline)
