"""Table of what orders a kernel's accesses of shared memory.

python -m warpsmith.tools.order_table [docs/ordering.md]

Prints that of the kernel of docs/roles.md; or writes it into the page, between its marks.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from warpsmith.kernel.orders import Order
from warpsmith.tools.page_examples import SHAPE, planned, scheduled_roles
from warpsmith.tools.pages import Section, print_or_write

SECTION: Final = Section.of("edges", "warpsmith.tools.order_table docs/ordering.md")


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


def main(arguments: Sequence[str]) -> None:
    """Print, or write into a page."""
    print_or_write(arguments, example_table(), SECTION)


if __name__ == "__main__":
    main(sys.argv[1:])
