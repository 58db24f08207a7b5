"""Writes the measured rows of `docs/benchmarks` into the README, pages and a picture.

python -m bench.readme
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import drawn
from bench.peers import OWN
from bench.plot import picture
from bench.row import Row, read_rows
from bench.table import US, by_size, geomean, speedup, tables
from pages.section import Section

PAGES: dict[str, tuple[str, ...]] = {
    "pointwise": ("pointwise",),
    "reduction": ("reduction",),
    "norm_fwd": ("norm_fwd",),
    "norm_bwd": ("norm_bwd",),
    "softmax": ("softmax",),
    "lengths": ("odd_rows", "long_rows", "short_rows"),
    "batch_norm": ("batch_norm",),
    "quack": ("quack",),
    "matmul": ("matmul",),
    "rings": ("rings",),
    "roles": ("roles",),
    "strategies": ("strategies",),
    "host": ("compile", "host", "protocol", "sim"),
}
"""The pages beside the rows, and the files of rows that each shows. Rows of `quack` are of a run of
their own, beside the peer that is too large to be brought with all others."""

SECTION = Section.of("benchmarks", "bench.readme")


def readme_table(directory: Path) -> str:
    """Markdown: each problem at sizes that a seed said."""
    return drawn.table(row for suite in drawn.SUITES for row in _rows(directory, suite))


def index(directory: Path) -> str:
    """Markdown: a line a suite with its page, how much it holds, what it says, and its day."""
    lines = ["| suite | sizes | % of ceiling | x best peer | measured |", "|---|---|---|---|---|"]
    for page, suites in PAGES.items():
        for suite in suites:
            if rows := _rows(directory, suite):
                lines.append(f"| [{suite}](benchmarks/{page}.md) | {_summary(rows)} |")
    return "\n".join(lines)


def page(directory: Path, suites: Sequence[str]) -> str:
    """Markdown of the suites' tables, each with the device, versions and day of its rows."""
    parts = []
    for suite in suites:
        if not (rows := _rows(directory, suite)):
            continue
        newest = rows[0]
        versions = ", ".join(f"{name} {version}" for name, version in newest.versions)
        parts.append(f"`{suite}`: {newest.gpu}; {versions}; {newest.date}.")
        parts += [table.markdown().rstrip() for table in tables(rows)]
    return "\n\n".join(parts)


def pages(root: Path) -> Iterator[tuple[Path, str]]:
    """Every page with what stands between its marks."""
    directory = root / "docs" / "benchmarks"
    yield root / "README.md", readme_table(directory)
    yield root / "docs" / "benchmarks.md", index(directory)
    for name, suites in PAGES.items():
        yield directory / f"{name}.md", page(directory, suites)


def _rows(directory: Path, suite: str) -> list[Row]:
    path = directory / f"{suite}.json"
    return read_rows(path) if path.exists() else []


def _summary(rows: list[Row]) -> str:
    alone = rows[0].suite in OWN
    ahead = "-" if alone else _ahead(rows)
    return f"{len(by_size(rows))} | {_share(rows, US)} | {ahead} | {rows[0].date}"


def _share(rows: Sequence[Row], impl: str) -> str:
    share = geomean(row.pct_ceiling for row in rows if row.impl == impl and row.pct_ceiling)
    return "-" if share is None else f"{share:.0f}"


def _ahead(rows: Sequence[Row]) -> str:
    groups = by_size(rows).values()
    ratio = geomean(r for group in groups if (r := speedup(group)) is not None)
    return "-" if ratio is None else f"{ratio:.2f}"


def main(root: Path = Path()) -> None:
    """Rewrite all pages, and the picture of drawn sizes."""
    for path, content in pages(root):
        path.write_text(SECTION.put(path.read_text(), content))
    path = root / "docs" / "benchmarks" / f"{drawn.SUITES[0]}.json"
    path.with_suffix(".svg").write_text(picture(read_rows(path)))


if __name__ == "__main__":
    main()
