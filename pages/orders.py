"""Table of what orders a kernel's accesses of shared memory.

That in docs/ordering.md is of the kernel of docs/roles.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pages.examples import SHAPE, planned, scheduled_roles
from pages.section import Section
from warpsmith.kernel.orders import Order

SECTION: Final = Section.of("edges")


def example_table() -> str:
    """The table of the kernel of the page about roles."""
    (launch,) = planned(scheduled_roles(), [SHAPE, SHAPE]).launches
    return table(launch.compiled.kernel.orders)


def table(orders: Sequence[Order]) -> str:
    """A line an edge, as Markdown."""
    lines = ["| of | what | first | then | over | by | why |", "|---|---|---|---|---|---|---|"]
    for each in orders:
        cells = (
            each.buffer,
            each.hazard,
            each.first,
            each.second,
            each.carried,
            each.mechanism,
            each.why,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def written(page: str) -> str:
    """The page with its table of edges as it is now."""
    return SECTION.put(page, example_table())
