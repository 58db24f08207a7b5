"""What is said of times at sizes that a seed says: how they did, and the worst of each family."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import geometric_mean, quantiles
from typing import Any

from bench.drawn import drawn_rows
from bench.measure import Setting
from bench.row import Row

CHOSEN = "warpsmith"
WORST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A problem, what everybody took for it in microseconds, and what could not be done.

    Attributes:
        chosen: parameters of the choice, and what it was predicted to take.
        best: the name of the shape of ours that took least time.
        work: what is to be done with the rows, as the model sees it.
        shapes: who does it, by the names of our contenders.
        moved: bytes that are read and written at least.
    """

    problem: str
    shape: tuple[int, ...]
    dtype: str
    us: dict[str, float]
    ceiling_us: float
    chosen: str
    best: str
    errors: dict[str, str]
    work: dict[str, Any] = field(default_factory=dict)
    shapes: dict[str, dict[str, Any]] = field(default_factory=dict)
    moved: int = 0

    def kept(self, seed: int, setting: Setting) -> list[Row]:
        """What `bench.readme` shows of it."""
        size = self.problem, self.shape, self.dtype
        ours, ceiling = CHOSEN, self.ceiling_us
        return drawn_rows(*size, self.us, ours, seed=seed, setting=setting, ceiling_us=ceiling)

    @property
    def share(self) -> float:
        """Per cent of the ceiling."""
        return 100 * self.ceiling_us / self.us[CHOSEN]

    @property
    def regret(self) -> float:
        """By which share of the best shape's time the choice took longer."""
        return self.us[CHOSEN] / self.us[self.best] - 1

    @property
    def peer(self) -> float:
        """The best peer's time over ours; infinite where none took part."""
        ours = {CHOSEN, self.best, *(name for name in self.us if name.startswith("#"))}
        peers = [us for name, us in self.us.items() if name not in ours]
        return min(peers, default=math.inf) / self.us[CHOSEN]


SIDES: tuple[tuple[str, Callable[[Timed], bool]], ...] = (
    ("below 20 MB", lambda row: row.moved < 20e6),
    ("from 20 MB on", lambda row: row.moved >= 20e6),
    ("below 10 us", lambda row: row.us[CHOSEN] < 10),
    ("from 10 us on", lambda row: row.us[CHOSEN] >= 10),
)
"""Parts of a family that are told apart, where it has sizes on both sides."""


def report(rows: Sequence[Timed]) -> list[str]:
    """A line a family and type, and one for each of its sides; then the worst of each, with what
    was best.
    """
    lines = []
    groups: dict[tuple[str, str], list[Timed]] = {}
    for row in rows:
        groups.setdefault((row.problem, row.dtype), []).append(row)
    for (name, dtype), group in groups.items():
        lines.append(f"{name} {dtype}: {_spread(group)}")
        for words, belongs in SIDES:
            side = [row for row in group if belongs(row)]
            if 0 < len(side) < len(group):
                lines.append(f"  {words}: {_spread(side)}")
        for row in sorted(group, key=lambda row: row.share)[:WORST]:
            size = "x".join(map(str, row.shape))
            best = "" if row.best == CHOSEN else f"; best {row.us[row.best]} {row.best}"
            lines.append(f"  {row.share:5.1f} {size} {row.us[CHOSEN]} us {row.chosen}{best}")
    return lines


def _spread(group: Sequence[Timed]) -> str:
    """Shares of the ceiling, regrets, and how far peers are behind."""
    shares = sorted(row.share for row in group)
    regrets = sorted(row.regret for row in group)
    tenth = quantiles(shares, n=10)[0] if len(shares) > 1 else shares[0]
    ahead = [row.peer for row in group if row.peer < math.inf]
    behind = sum(peer < 1 for peer in ahead)
    peers = (
        f", {geometric_mean(ahead):.2f} x best peer, least {min(ahead):.2f}, behind at {behind}"
        if ahead
        else ""
    )
    return (
        f"{len(group)} sizes, {geometric_mean(shares):.1f} % of the ceiling, "
        f"tenth {tenth:.1f}, worst {shares[0]:.1f}; "
        f"regret median {regrets[len(group) // 2]:.1%}, "
        f"ninth {regrets[9 * len(group) // 10]:.1%}, worst {regrets[-1]:.1%}{peers}"
    )
