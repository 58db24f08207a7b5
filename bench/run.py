"""Run suites, show how far they are, and keep the rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench import (
    batch_norm,
    lengths,
    matmul,
    norm_backward,
    norms,
    pace,
    pointwise,
    reduction,
    rings,
    roles,
    strategies,
)
from bench.measure import ContextLost, Setting, in_processes, measure, setting_here
from bench.peers import CHOICES, chosen, contenders
from bench.problem import Problem
from bench.row import Row, write_rows
from bench.table import tables
from warpsmith.errors import ArgumentError, DeviceError

if TYPE_CHECKING:
    from rich.console import Console

PROBLEMS: dict[str, Callable[..., Iterator[Problem]]] = {
    "pointwise": pointwise.problems,
    "reduction": reduction.problems,
    "norm_fwd": norms.norm_problems,
    "norm_bwd": norm_backward.problems,
    "softmax": norms.softmax_problems,
    lengths.ODD: lengths.odd_problems,
    lengths.LONG: lengths.long_problems,
    lengths.SHORT: lengths.short_problems,
    "batch_norm": batch_norm.problems,
    "matmul": matmul.problems,
    "rings": rings.problems,
    "pace": pace.problems,
    "roles": roles.problems,
    "strategies": strategies.problems,
}
SUITES = (*PROBLEMS, "compile", "host", "protocol", "sim")
ANYWHERE = ("compile", "protocol", "sim")
"""Suites that need no GPU."""


FEW = 8
"""So many problems are compiled as they are timed: processes take longer to begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What of the suites is run.

    Attributes:
        quick: fewer sizes and shorter runs.
        sizes: only problems of these shapes; all when empty.
        limit_s: seconds after which no further problem is begun.
    """

    quick: bool = False
    sizes: tuple[tuple[int, ...], ...] = ()
    limit_s: float | None = None


def run(
    suites: Sequence[str],
    json_path: Path | None = None,
    peers: str = "auto",
    *,
    choice: Choice | None = None,
    console: Console | None = None,
) -> list[Row]:
    """Measure suites and print their tables in markdown's form.

    Rows are written after every problem, so a run that is cut short leaves what it had. A problem
    that fails becomes rows with an error, and the rest goes on.

    Args:
        suites: of `SUITES`.
        json_path: a file for one list of all rows, or an existing directory for `SUITE.json` each.
        peers: who takes part besides warpsmith, as `bench.peers.chosen` takes it; where peers are
            named, problems that none of them can do are left out.
        choice: what of the suites.
        console: where progress and tables go; standard output by default.

    Raises ArgumentError for unknown names, DeviceError where a suite needs a GPU and there is none.
    """
    from rich.console import Console

    choice = choice or Choice()
    console = console or Console()
    _check(suites, peers)
    setting = setting_here(peers, quick=choice.quick)
    _check_device(suites, setting)
    started = time.monotonic()
    console.print(f"{setting.gpu}; " + ", ".join(" ".join(pair) for pair in setting.versions))
    if any(suite in PROBLEMS for suite in suites):
        _print_rates(console)
    rows: list[Row] = []

    def keep(found: Sequence[Row]) -> None:
        rows.extend(found)
        if json_path is not None:
            _write(json_path, rows)

    for suite in suites:
        try:
            if suite in PROBLEMS:
                _run_problems(suite, choice, setting, started, console, keep)
            elif suite == "host":
                from bench.host import measure_host

                keep(measure_host(setting))
            elif suite == "protocol":
                from bench.protocol import measure_protocol

                keep(measure_protocol(setting, quick=choice.quick))
            elif suite == "sim":
                from bench.sim import measure_sim

                keep(measure_sim(setting, quick=choice.quick))
            else:
                from bench.compile import measure_compile

                keep(measure_compile(setting, quick=choice.quick))
        except ContextLost as lost:
            keep(lost.rows)
            console.print(f"[red]{lost}[/red]")
            break
    for table in tables(rows):
        console.print(table.rich() if console.is_terminal else table.markdown())
    return rows


def _run_problems(
    suite: str,
    choice: Choice,
    setting: Setting,
    started: float,
    console: Console,
    keep: Callable[[Sequence[Row]], None],
) -> None:
    from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    problems = _problems(suite, choice, setting.peers)
    if len(problems) > FEW:
        console.print(f"{suite}: {len(problems)} problems are compiled", highlight=False)
        in_processes(_ready, ((suite, choice, setting.peers, n) for n in range(len(problems))))
    columns = (TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(suite, total=len(problems))
        for number, problem in enumerate(problems):
            spent = time.monotonic() - started
            if choice.limit_s is not None and spent > choice.limit_s:
                left = len(problems) - number
                console.print(f"{suite}: {left} problems left out after {spent:.0f} s")
                return
            progress.update(task, description=problem.title)
            found = measure(problem, setting)
            keep(found)
            progress.advance(task)
            if not console.is_terminal:
                console.print(_line(problem, found), highlight=False, soft_wrap=True)


def _problems(suite: str, choice: Choice, peers: str) -> list[Problem]:
    problems = list(PROBLEMS[suite](quick=choice.quick))
    if choice.sizes:
        problems = [problem for problem in problems if problem.shape in choice.sizes]
    if peers not in CHOICES:  # somebody was named: who can do what counts
        problems = [p for p in problems if len(contenders(p, peers)) > 1]
    return problems


def _ready(suite: str, choice: Choice, peers: str, number: int) -> None:
    """In a process of its own: everybody who keeps kernels on disk has them there then."""
    problem = _problems(suite, choice, peers)[number]
    inputs = problem.draw()
    for builder in contenders(problem, peers).values():
        with suppress(Exception):  # who times it says so
            builder(inputs)()


def _line(problem: Problem, rows: Sequence[Row]) -> str:
    """What one problem gave, for logs that cannot be drawn over."""
    ceiling = next((row.ceiling_us for row in rows if row.ceiling_us), None)
    parts = [f"{row.impl} {'failed' if row.us is None else row.us}" for row in rows]
    return f"{problem.title}: ceiling {ceiling}, {', '.join(parts)}"


def _print_rates(console: Console) -> None:
    from bench.ceilings import rates

    measured = ", ".join(f"{kind} {rate:.2f}" for kind, rate in rates().items())
    console.print(f"rates of this machine on 4.3 GB, TB/s: {measured}", highlight=False)


def _write(path: Path, rows: Sequence[Row]) -> None:
    if not path.is_dir():
        write_rows(path, rows)
        return
    for suite in dict.fromkeys(row.suite for row in rows):
        write_rows(path / f"{suite}.json", [row for row in rows if row.suite == suite])


def _check(suites: Sequence[str], peers: str) -> None:
    for suite in suites:
        if suite not in SUITES:
            raise ArgumentError(
                f"there is no suite {suite!r}", code="WS0340", remedy=f"use {', '.join(SUITES)}"
            )
    chosen(peers)


def _check_device(suites: Sequence[str], setting: Setting) -> None:
    needing = [suite for suite in suites if suite not in ANYWHERE]
    if needing and setting.gpu == "none":
        raise DeviceError(
            f"suite {needing[0]} needs a GPU, and there is none",
            code="WS0612",
            remedy="run it on a machine with an NVIDIA GPU; suites "
            + ", ".join(ANYWHERE)
            + " run anywhere",
        )
