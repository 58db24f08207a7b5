"""Rows as tables: for a terminal by rich, for docs in markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.row import Row

if TYPE_CHECKING:
    from rich.table import Table as RichTable

US = "warpsmith"


@dataclass(frozen=True, slots=True)
class Table:
    """A heading, names of columns, and lines of cells."""

    heading: str
    columns: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """The table as pages of benchmarks hold it."""
        rule = "|".join(["---"] * len(self.columns))
        body = [" | ".join(line) for line in self.lines]
        text = "\n".join(f"| {line} |" for line in [" | ".join(self.columns), *body])
        head, _, rest = text.partition("\n")
        return f"**{self.heading}**\n\n{head}\n|{rule}|\n{rest}\n"

    def rich(self) -> RichTable:
        """The table for a terminal."""
        from rich.markup import escape
        from rich.table import Table as RichTable

        table = RichTable(title=self.heading, title_justify="left")
        for number, column in enumerate(self.columns):
            table.add_column(column, justify="left" if number == 0 else "right")
        for line in self.lines:
            table.add_row(*(escape(cell) for cell in line))
        return table


def tables(rows: Sequence[Row]) -> list[Table]:
    """Times by size for each suite and dtype, then the geometric means; last, what failed."""
    made: list[Table] = []
    for suite in dict.fromkeys(row.suite for row in rows):
        of_suite = [row for row in rows if row.suite == suite]
        if suite == "roles":
            made += _grids(of_suite)
            continue
        if suite == "strategies":
            made.append(_regrets(suite, of_suite))
            continue
        if any(row.ceiling_us is not None for row in of_suite):
            for dtype in dict.fromkeys(row.dtype for row in of_suite):
                made.append(_sizes(suite, dtype, [r for r in of_suite if r.dtype == dtype]))
            made.append(_means(suite, of_suite))
        elif any(row.limit_us is not None for row in of_suite):
            made.append(_limits(suite, of_suite))
        else:
            made.append(_plain(suite, of_suite))
    failed = [row for row in rows if row.error is not None]
    if failed:
        made.append(_failures(failed))
    return made


def geomean(values: Iterable[float]) -> float | None:
    """Geometric mean, None of nothing."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else None


def best_peer(rows: Iterable[Row]) -> Row | None:
    """The fastest row of one problem and size that is not ours."""
    timed = [row for row in rows if row.impl != US and row.us is not None]
    return min(timed, key=lambda row: row.us or math.inf, default=None)


Key = tuple[str, tuple[int, ...], str]


def by_size(rows: Iterable[Row]) -> dict[Key, list[Row]]:
    """Rows of one problem, shape and dtype together, in the order met."""
    groups: dict[Key, list[Row]] = {}
    for row in rows:
        groups.setdefault((row.problem, row.shape, row.dtype), []).append(row)
    return groups


def speedup(rows: Iterable[Row]) -> float | None:
    """Time of the best peer over ours at one size; above 1 we are faster."""
    rows = list(rows)
    peer, ours = best_peer(rows), _ours(rows)
    if peer is None or ours is None or peer.us is None or ours.us is None:
        return None
    return peer.us / ours.us


NEAR = 1.03
"""Of two times, the longer over the shorter, up to which it does not matter which was chosen."""


def _regrets(suite: str, rows: Sequence[Row]) -> Table:
    """How much longer the automatic choice takes than the better strategy."""
    lines = []
    for problem in dict.fromkeys(row.problem for row in rows):
        for dtype in dict.fromkeys(row.dtype for row in rows):
            groups = by_size(r for r in rows if (r.problem, r.dtype) == (problem, dtype))
            both = [g for g in groups.values() if sum(r.us is not None for r in g) == 3]
            regrets = [1 / ratio for group in both if (ratio := speedup(group)) is not None]
            if regrets:
                near = sum(regret <= NEAR for regret in regrets) / len(regrets)
                worst = f"{100 * (max(regrets) - 1):.1f}"
                mean = f"{100 * ((geomean(regrets) or 1) - 1):.1f}"
                name = f"{problem} {dtype}"
                lines.append((name, str(len(regrets)), f"{100 * near:.0f}", mean, worst))
    return Table(
        f"{suite}: what the automatic choice takes longer than the better strategy",
        ("problem", "sizes with both", "% within 3 %", "mean %", "worst %"),
        tuple(lines),
    )


def _sizes(suite: str, dtype: str, rows: Sequence[Row]) -> Table:
    impls = tuple(dict.fromkeys(row.impl for row in rows))
    lines = []
    for (problem, shape, _), group in by_size(rows).items():
        times = {row.impl: row for row in group}
        ceiling = next((row.ceiling_us for row in group if row.ceiling_us), None)
        ours = _ours(group)
        peer = best_peer(group)
        lines.append(
            (
                f"{problem} {_shape(shape)}",
                _number(ceiling),
                *(_number(times[name].us if name in times else None) for name in impls),
                _number(ours.pct_ceiling if ours else None),
                peer.impl if peer else "-",
                _ratio(speedup(group)),
                _error(ours.rel_err if ours else None),
            )
        )
    us = tuple(f"{name} µs" for name in impls)
    return Table(
        f"{suite}, {dtype}",
        ("problem", "ceiling µs", *us, "% of ceiling", "best peer", "x best peer", "error"),
        tuple(lines),
    )


def _grids(rows: Sequence[Row]) -> list[Table]:
    """For each size, who loads and stores against how deep: `3 load, store, 4 stages`."""
    made = []
    for (problem, shape, dtype), group in by_size(rows).items():
        times = {row.impl: row.us for row in group}
        split = {impl: impl.rpartition(", ") for impl in times}
        depths = tuple(dict.fromkeys(depth for who, _, depth in split.values() if who))
        lines = []
        for who in dict.fromkeys(who or impl for impl, (who, _, _) in split.items()):
            found = [times.get(f"{who}, {depth}", times.get(who)) for depth in depths]
            lines.append((who, *map(_number, found)))
        ceiling = next((row.ceiling_us for row in group if row.ceiling_us), None)
        title = f"{problem} {_shape(shape)} {dtype}, µs (ceiling {_number(ceiling)})"
        made.append(Table(title, ("warps that load and store", *depths), tuple(lines)))
    return made


def _means(suite: str, rows: Sequence[Row]) -> Table:
    """Geometric means over the sizes of each problem."""
    impls = tuple(dict.fromkeys(row.impl for row in rows))
    problems = dict.fromkeys((row.problem, row.dtype) for row in rows)
    lines = [
        _mean_line(
            f"{problem} {dtype}",
            impls,
            [r for r in rows if (r.problem, r.dtype) == (problem, dtype)],
        )
        for problem, dtype in problems
    ]
    lines.append(_mean_line("all", impls, rows))
    shares = tuple(f"{name} %" for name in impls)
    return Table(
        f"{suite}, geometric means in % of the ceiling",
        ("problem", "sizes", *shares, "x best peer"),
        tuple(lines),
    )


def _mean_line(label: str, impls: Sequence[str], rows: Sequence[Row]) -> tuple[str, ...]:
    groups = by_size(rows)
    shares = (
        geomean(r.pct_ceiling for r in rows if r.impl == impl and r.pct_ceiling) for impl in impls
    )
    ratios = [ratio for group in groups.values() if (ratio := speedup(group)) is not None]
    return (label, str(len(groups)), *(_number(share) for share in shares), _ratio(geomean(ratios)))


def _plain(suite: str, rows: Sequence[Row]) -> Table:
    lines = tuple((f"{row.problem} {_shape(row.shape)}", row.impl, _number(row.us)) for row in rows)
    return Table(suite, ("problem", "by", "µs"), lines)


def _limits(suite: str, rows: Sequence[Row]) -> Table:
    """Times against the most that they may be."""
    lines = []
    for row in rows:
        known = row.us is not None and row.limit_us is not None
        share = 100 * row.us / row.limit_us if known else None  # type: ignore[operator]
        lines.append(
            (
                f"{row.problem} {_shape(row.shape)}",
                _digits(row.us),
                _digits(row.limit_us),
                _digits(None if row.us is None else 1e6 / row.us),
                "-" if share is None else f"{share:.0f}",
            )
        )
    columns = ("problem", "µs", "limit µs", "a second", "% of the limit")
    return Table(f"{suite}, {rows[0].gpu}", columns, tuple(lines))


def _digits(value: float | None) -> str:
    """Three digits, and no exponent."""
    return "-" if value is None else f"{float(f'{value:.3g}'):,.10g}"


def _failures(rows: Sequence[Row]) -> Table:
    lines = tuple(
        (f"{row.problem} {_shape(row.shape)} {row.dtype}", row.impl, row.error or "")
        for row in rows
    )
    return Table("failed", ("problem", "by", "why"), lines)


def _ours(rows: Iterable[Row]) -> Row | None:
    return next((row for row in rows if row.impl == US), None)


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if value < 1e5 else f"{value:.0f}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _error(value: float | None) -> str:
    return "-" if value is None else f"{value:.1e}"
