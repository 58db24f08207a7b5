"""Writes the measured rows of `docs/benchmarks` into the README and docs/benchmarks.md.

python -m bench.readme
"""

from __future__ import annotations

from pathlib import Path

from bench import lengths
from bench.peers import OWN
from bench.row import Row, read_rows
from bench.run import SUITES
from bench.table import by_size, geomean, speedup, tables

PEERS = ("warpsmith", "torch_compile", "nvfuser", "torch")
BESIDE = "quack.json"
"""Rows of a run of their own, beside the peer that is too large to be brought with all others."""

START, END = "<!-- benchmarks: written by `python -m bench.readme` -->", "<!-- end -->"


def measured(directory: Path) -> list[Row]:
    """All rows of a directory of benchmark files, suite by suite."""
    files = (directory / f"{suite}.json" for suite in SUITES)
    return [row for path in files if path.exists() for row in read_rows(path)]


def readme_table(directory: Path) -> str:
    """Markdown: each problem's share of the ceiling over the usual sizes of both types."""
    apart = {*OWN, *lengths.SIZES}
    rows = [row for row in measured(directory) if row.pct_ceiling and row.suite not in apart]
    lines = [
        f"| problem | sizes | {' | '.join(PEERS)} | x best peer |",
        "|---|---|" + "---|" * (len(PEERS) + 1),
    ]
    problems = list(dict.fromkeys(row.problem for row in rows))
    for problem in problems:
        lines.append(_line(problem, [row for row in rows if row.problem == problem]))
    return "\n".join(lines)


def _line(problem: str, rows: list[Row]) -> str:
    groups = by_size(rows)
    shares = []
    for impl in PEERS:
        share = geomean(row.pct_ceiling for row in rows if row.impl == impl and row.pct_ceiling)
        shares.append("-" if share is None else f"{share:.0f}")
    ratio = geomean(r for group in groups.values() if (r := speedup(group)) is not None)
    ahead = "-" if ratio is None else f"{ratio:.2f}"
    return f"| `{problem}` | {len(groups)} | {' | '.join(shares)} | {ahead} |"


def results(directory: Path) -> str:
    """Markdown of every table, with the device, versions and date of the rows."""
    rows = measured(directory)
    newest = rows[0]
    versions = ", ".join(f"{name} {version}" for name, version in newest.versions)
    head = f"{newest.gpu}; {versions}; {newest.date}."
    parts = [head, *(table.markdown() for table in tables(rows))]
    if (beside := directory / BESIDE).exists():
        parts += ["### Beside Quack", *(table.markdown() for table in tables(read_rows(beside)))]
    return "\n\n".join(parts)


def replaced(text: str, content: str) -> str:
    """`text` with what stands between the marks replaced."""
    before, rest = text.split(START, 1)
    _, after = rest.split(END, 1)
    return f"{before}{START}\n\n{content}\n\n{END}{after}"


def main(root: Path = Path()) -> None:
    """Rewrite both pages."""
    directory = root / "docs" / "benchmarks"
    for page, content in (
        (root / "README.md", readme_table(directory)),
        (root / "docs" / "benchmarks.md", results(directory)),
    ):
        page.write_text(replaced(page.read_text(), content))


if __name__ == "__main__":
    main()
