"""Writes what pages of the documentation print, draw or count.

python -m pages [PAGE ...]

Pages are named as they lie in docs; without a name all are written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from pages import counts, knobs, orders, roles, targets, timelines

DOCS = Path(__file__).resolve().parents[1] / "docs"

PAGES: dict[str, tuple[Callable[[str], str], ...]] = {
    "knobs.md": (knobs.written,),
    "targets.md": (targets.written,),
    "roles.md": (roles.written,),
    "ordering.md": (orders.written, counts.written),
    "pictures/ring.svg": (partial(timelines.written, "ring"),),
    "pictures/roles.svg": (partial(timelines.written, "roles"),),
}
"""By page, what makes its text from the one that it had, one after the other."""


def main(names: Sequence[str]) -> None:
    """Write some pages, or all."""
    for name in names or PAGES:
        page = DOCS / name
        text = page.read_text()
        for written in PAGES[name]:
            text = written(text)
        page.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
