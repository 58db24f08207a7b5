"""Tables of a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warpsmith.page.markup import Markup, tag


def row(*cells: object) -> Markup:
    """A row of a table."""
    return tag("tr", *(tag("td", cell) for cell in cells))


def table(heads: Sequence[str], rows: Iterable[Markup], kind: str) -> Markup:
    """A table that scrolls where it is too wide."""
    head = tag("thead", tag("tr", *(tag("th", each) for each in heads)))
    return tag("div", tag("table", head, tag("tbody", *rows), class_=kind), class_="scroll")


def pairs(rows: Iterable[tuple[object, object]], kind: str) -> Markup:
    """Names with what is said of them."""
    cells = (tag("tr", tag("th", name), tag("td", value)) for name, value in rows)
    return tag("table", tag("tbody", *cells), class_=kind)
