"""The known targets as a table, for docs/targets.md."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from pages.section import Section
from warpsmith.targets.known import KNOWN
from warpsmith.targets.target import Rates, Target

SECTION: Final = Section.of("targets")


def table() -> str:
    """A line a number, a column a target, each number with its source."""
    names = ("sm_count", "clusters", "l2_bytes", *(field.name for field in fields(Rates)))
    heads = (f"{target.name} ({target.family.arch})" for target in KNOWN)
    lines = [f"| | {' | '.join(heads)} |", f"|{'---|' * (len(KNOWN) + 1)}"]
    for name in names:
        cells = (_cell(target, name) for target in KNOWN)
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(target: Target, name: str) -> str:
    value = getattr(target.rates, name, None) or getattr(target, name)
    if isinstance(value, tuple):
        shown = ", ".join(f"{count} of {blocks}" for blocks, count in value)
    else:
        shown = f"{value:,.10g}"
    return f"{shown}: {dict(target.sources)[name]}"


def written(page: str) -> str:
    """The page with its table as it is now."""
    return SECTION.put(page, table())
