"""The page itself: one file, with its style and its script inside."""

from __future__ import annotations

from collections.abc import Iterator

from warpsmith.page.content import Content
from warpsmith.page.kernel import kernel_section
from warpsmith.page.listing import Names
from warpsmith.page.markup import Markup, asset, joined, tag
from warpsmith.page.picture import is_drawn, picture
from warpsmith.page.program import size_text
from warpsmith.page.tables import row, table
from warpsmith.planner.cuts import Cut
from warpsmith.planner.other_kernels import Other

MOST_DRAWN = 90
"""Operations of which the graph is drawn; of more it is a list."""


def page(content: Content) -> str:
    """The whole page. It asks for no other file, and no network."""
    names = Names(content.sources)
    return joined(
        Markup("<!DOCTYPE html>\n"),
        tag(
            "html",
            tag(
                "head",
                tag("meta", charset="utf-8"),
                tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
                tag("meta", name="color-scheme", content="light dark"),
                tag("link", rel="icon", href="data:,"),
                tag("title", f"{content.title}: warpsmith"),
                tag("style", asset("drawing.css"), asset("page.css")),
            ),
            tag(
                "body",
                tag("header", tag("h1", content.title), *_summary(content)),
                _program(content, names),
                *_cuts(content),
                *(kernel_section(each, content, names) for each in content.kernels),
                tag("script", asset("page.js")),
            ),
            lang="en",
        ),
        "\n",
    )


def _summary(content: Content) -> Iterator[Markup]:
    facts, count = content.facts, len(content.facts.kernels)
    target = facts.target
    kinds = len(content.kernels)
    several = f", {kinds} of them different" if kinds < count else ""
    yield tag(
        "p",
        tag("b", f"{count} kernel{'s' * (count != 1)}"),
        f"{several}, made for {target.name} ({target.family.arch}): ",
        f"{content.graph.operations} operations",
        class_="line",
    )
    crossing = content.crossing
    between = f", of which {size_text(crossing)} pass between kernels" if crossing else ""
    yield tag(
        "p",
        tag("b", size_text(content.moved)),
        f" read and written{between}",
        class_="line",
    )
    us = content.us
    if us is None:
        yield tag("p", "no time is predicted of a schedule by hand", class_="line")
        return
    alone = content.moved / target.rates.memory
    yield tag(
        "p",
        tag("b", f"{us:.4g} µs"),
        f" predicted, launches included; the memory alone takes {alone:.4g} µs at its full rate",
        class_="line",
    )


def _program(content: Content, names: Names) -> Markup:
    graph = content.graph
    titles = [
        " · ".join(
            filter(
                None,
                (
                    f"kernel {kernel.number}",
                    kernel.choice.scheduler or "scheduled by hand",
                    f"{price.us:.4g} µs" if price else "",
                    f"bound by {price.bounds[0][0]}" if price else "",
                ),
            )
        )
        for kernel, price in zip(content.facts.kernels, content.prices, strict=True)
    ]
    if is_drawn(graph, MOST_DRAWN):
        lines = {node.key: text for node in graph.nodes if (text := names.of(node.lines))}
        shown = tag("div", picture(graph, titles, lines), class_="scroll")
        how = (
            "A band is a kernel; what stands between bands lies in memory. Pointing at an "
            "operation lights up its line of Python and its CUDA."
        )
    else:
        shown = _list(content, titles)
        how = f"Of more than {MOST_DRAWN} operations there is a list, and no graph."
    return tag(
        "section",
        tag("h2", "Operations and kernels"),
        tag("p", how, class_="quiet"),
        shown,
        id="graph",
    )


def _list(content: Content, titles: list[str]) -> Markup:
    """What each kernel reads, computes and writes, in words."""
    rows = []
    for kernel, title in zip(content.facts.kernels, titles, strict=True):
        counted = content.graph.counted(kernel.number)
        operations = ", ".join(f"{n} {name}" for name, n in counted.most_common())
        rows.append(
            row(
                tag("a", title, href=f"#kernel-{kernel.number}"),
                ", ".join(map(str, kernel.reads)),
                operations,
                ", ".join(map(str, kernel.writes)),
            )
        )
    return table(("kernel", "reads", "operations", "writes"), rows, "programs")


def _cuts(content: Content) -> Iterator[Markup]:
    facts = content.facts
    if not facts.cuts:
        return
    rows = [
        row(
            tag("b", str(cut.tensor)),
            f"{cut.writer} → {', '.join(map(str, cut.readers))}",
            size_text(cut.tensor.size),
            f"{cut.us:.3g} + {cut.launch_us:g}",
            f"{cut.apart[0]:.4g} and {cut.apart[1]:.4g}",
            _why(cut),
        )
        for cut in facts.cuts
    ]
    heads = ("tensor", "kernels", "bytes", "µs, and launch", "apart, µs", "why not one kernel")
    more = f"These are the first {len(rows)}; there are more." if facts.more_cuts else ""
    yield tag(
        "section",
        tag("h2", "What passes through memory between kernels"),
        table(heads, rows, "cuts"),
        tag("p", more, class_="quiet"),
        id="cuts",
    )


def _why(cut: Cut) -> Markup:
    lines = [_other("as one kernel", cut.together)]
    if cut.again is not None and not cut.again.refusals:
        lines.append(_other(f"kernel {cut.readers[0]} computing it again", cut.again))
    return joined(*lines)


def _other(what: str, other: Other) -> Markup:
    if other.refusals:
        return joined(*(tag("div", tag("b", name), f": {why}") for name, why in other.refusals))
    return tag("div", f"{what}, by {other.scheduler}: {other.us:.4g} µs")
