"""What was reached at sizes that a seed said: rows that are kept, and the README's table of them.

`python -m bench.unseen` and `python -m bench.random_products` keep them with `--keep`, in files of
the names in `SUITES` beside other rows of benchmarks; `python -m bench.readme` writes the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import quantiles

from bench.measure import Setting, significant
from bench.row import Row
from bench.table import US, by_size, geomean, speedup

SUITES = ("unseen", "unseen_products")


def drawn_rows(
    problem: str,
    shape: tuple[int, ...],
    dtype: str,
    us: Mapping[str, float],
    ours: str,
    *,
    seed: int,
    setting: Setting,
    ceiling_us: float | None = None,
) -> list[Row]:
    """The rows of one size: of our choice, and of peers, without other candidates of ours."""
    peers = {name: t for name, t in us.items() if name != ours and not name.startswith("#")}
    return [
        Row(
            suite=SUITES[ceiling_us is None],
            problem=problem,
            shape=shape,
            dtype=dtype,
            impl=impl,
            us=significant(time),
            ceiling_us=significant(ceiling_us),
            pct_ceiling=None if ceiling_us is None else significant(100 * ceiling_us / time, 4),
            gpu=setting.gpu,
            versions=setting.versions,
            date=setting.date,
            seed=seed,
        )
        for impl, time in {US: us[ours], **peers}.items()
    ]


def table(rows: Iterable[Row]) -> str:
    """Markdown: a line a problem, over the sizes and types that were drawn; then whence they are.

    Of shares of the ceiling, and of the best peer's time over ours: the geometric mean, what a
    tenth is below, and the least.
    """
    of_problems: dict[str, list[Row]] = {}
    of_runs: dict[tuple[str, str, int | None, str], list[str]] = {}
    for each in rows:
        of_problems.setdefault(each.problem, []).append(each)
        packages = ", ".join(" ".join(pair) for pair in each.versions)
        of_runs.setdefault((each.gpu, each.date, each.seed, packages), []).append(each.problem)
    lines = [
        "| problem | sizes | % of ceiling | tenth | least | x best peer | tenth | least | peers |",
        "|---|---|---|---|---|---|---|---|---|",
        *(f"| `{problem}` | {_line(of_it)} |" for problem, of_it in of_problems.items()),
        "",
    ]
    runs = [
        f"{_first_to_last(of_it)}: {gpu}, seed {seed}, {date}; {packages}."
        for (gpu, date, seed, packages), of_it in of_runs.items()
    ]
    return "\n".join((*lines, "\n\n".join(runs)))


def _first_to_last(problems: Sequence[str]) -> str:
    of_it = list(dict.fromkeys(problems))
    return " to ".join(f"`{problem}`" for problem in dict.fromkeys((of_it[0], of_it[-1])))


def _line(rows: Sequence[Row]) -> str:
    sizes = by_size(rows)
    shares = [each.pct_ceiling for each in rows if each.impl == US and each.pct_ceiling]
    ahead = [ratio for group in sizes.values() if (ratio := speedup(group)) is not None]
    peers = dict.fromkeys(each.impl for each in rows if each.impl != US)
    cells = [str(len(sizes)), *_spread(shares, 0), *_spread(ahead, 2), ", ".join(peers) or "-"]
    return " | ".join(cells)


def _spread(values: Sequence[float], digits: int) -> tuple[str, ...]:
    """Geometric mean, tenth percentile, least."""
    mean = geomean(values)
    if mean is None:
        return ("-",) * 3
    tenth = quantiles(values, n=10, method="inclusive")[0] if len(values) > 1 else values[0]
    return tuple(f"{value:.{digits}f}" for value in (mean, tenth, min(values)))
