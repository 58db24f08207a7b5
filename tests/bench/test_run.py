"""Runs: what is refused, what is kept when one ends early."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench import compile as compile_suite
from bench import run as runner
from bench.compile_probe import PROBLEMS
from bench.measure import ContextLost, Setting
from bench.problem import Problem
from bench.row import Row, read_rows
from bench.run import Choice, run
from warpsmith.errors import ArgumentError, DeviceError

SETTING = Setting(peers="none", gpu="NVIDIA H200", versions=(), date="2026-11-21")


def row_of(problem: Problem) -> Row:
    return Row(
        suite=problem.suite,
        problem=problem.name,
        shape=problem.shape,
        dtype=problem.dtype,
        impl="warpsmith",
        us=10.0,
        ceiling_us=9.0,
        pct_ceiling=90.0,
        gpu="NVIDIA H200",
        versions=(),
        date="2026-11-21",
    )


@pytest.fixture
def console(monkeypatch: pytest.MonkeyPatch) -> Console:
    """A machine with a GPU that measures every problem at once."""
    monkeypatch.setattr(runner, "setting_here", lambda peers, quick: SETTING)
    monkeypatch.setattr(runner, "_print_rates", lambda console: None)
    monkeypatch.setattr(runner, "measure", lambda problem, setting: [row_of(problem)])
    monkeypatch.setattr(runner, "in_processes", lambda job, cases: list(cases))
    return Console(file=io.StringIO(), width=200)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_rows_are_kept_by_suite_in_a_directory_and_printed(
    console: Console, tmp_path: Path
) -> None:
    choice = Choice(quick=True)
    rows = run(["pointwise", "reduction"], tmp_path, "none", choice=choice, console=console)
    kept = [read_rows(tmp_path / f"{suite}.json") for suite in ("pointwise", "reduction")]
    assert [*kept[0], *kept[1]] == rows
    assert "| silu_mul 8192x1024 | 9.0 | 10.0 | 90.0 |" in printed(console)
    assert "silu_mul 8192x1024 bfloat16: ceiling 9.0, warpsmith 10.0" in printed(console)


def test_only_the_asked_sizes_run(console: Console) -> None:
    rows = run(["pointwise"], choice=Choice(sizes=((8192, 5120),)), console=console)
    assert {row.shape for row in rows} == {(8192, 5120)}
    assert len(rows) == 6


def test_a_lost_context_ends_the_run_and_keeps_the_rows(
    console: Console, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[Problem] = []

    def measure(problem: Problem, setting: Setting) -> list[Row]:
        seen.append(problem)
        if len(seen) == 2:
            raise ContextLost("illegal address", [row_of(problem)])
        return [row_of(problem)]

    monkeypatch.setattr(runner, "measure", measure)
    path = tmp_path / "rows.json"
    run(["pointwise"], path, choice=Choice(quick=True), console=console)
    assert [row.shape for row in read_rows(path)] == [problem.shape for problem in seen]
    assert len(seen) == 2
    assert "context was lost, and with it the rest of the run: illegal address" in printed(console)


def test_all_problems_are_compiled_by_processes_before_the_first_is_timed(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    built = {"warpsmith": lambda inputs: lambda: done.append("compiled")}

    def measure(problem: Problem, setting: Setting) -> list[Row]:
        done.append("timed")
        return [row_of(problem)]

    monkeypatch.setattr(runner, "in_processes", lambda job, cases: [job(*case) for case in cases])
    monkeypatch.setattr(runner, "contenders", lambda problem, peers: built)
    monkeypatch.setattr(Problem, "draw", lambda problem: ())
    monkeypatch.setattr(runner, "measure", measure)
    rows = run(["reduction"], choice=Choice(quick=True), console=console)
    assert done == ["compiled"] * len(rows) + ["timed"] * len(rows)


def test_no_problem_is_begun_after_the_limit(console: Console) -> None:
    assert run(["reduction"], choice=Choice(quick=True, limit_s=-1.0), console=console) == []
    assert "reduction: 18 problems left out" in printed(console)


@pytest.mark.parametrize(
    ("suites", "peers", "error", "text"),
    [
        (["pointwize"], "auto", ArgumentError, "no suite 'pointwize'; use pointwise, reduction"),
        (["pointwise"], "all", ArgumentError, "peers='all' is not known; use auto, none, fast"),
        (["pointwise"], "torch,quick", ArgumentError, "peers='torch,quick' is not known; use auto"),
        (["compile", "host"], "none", DeviceError, "suite host needs a GPU"),
    ],
)
def test_what_cannot_run_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, suites: list[str], peers: Any, error: Any, text: str
) -> None:
    monkeypatch.setattr("bench.measure.gpu_name", lambda: "none")
    with pytest.raises(error, match=text):
        run(suites, None, peers)


def test_problems_that_no_named_peer_can_do_are_left_out(
    monkeypatch: pytest.MonkeyPatch, console: Console
) -> None:
    met: list[str] = []
    monkeypatch.setattr(runner, "measure", lambda problem, _: met.append(problem.name) or [])
    monkeypatch.setattr(runner, "setting_here", lambda peers, quick: replace(SETTING, peers=peers))
    monkeypatch.setattr("bench.peers.installed", lambda name: True)
    run(["norm_bwd"], None, "liger", choice=Choice(quick=True), console=console)
    assert set(met) == {"layer_norm_bwd", "rms_norm_bwd"}
    met.clear()
    run(["norm_bwd"], None, "none", choice=Choice(quick=True), console=console)
    assert len(set(met)) == 4


@pytest.mark.slow
def test_compile_is_timed_in_processes_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_suite, "_QUICK_TIMES", 1)
    setting = Setting(peers="none", gpu="none", versions=(), date="2026-11-21")
    rows = compile_suite.measure_compile(setting, quick=True)
    names = [f"{name}_{what}" for name in PROBLEMS for what in ("first", "cached")]
    imports = ["import", "import_cached"]
    assert [row.problem for row in rows if row.problem in imports] == imports
    timed = [row for row in rows if row.problem not in imports]
    assert [row.problem for row in timed] == names
    assert [row.error for row in rows] == [None] * len(rows)
    times = [row.us for row in timed]
    for first, cached in zip(times[::2], times[1::2], strict=True):
        assert first is not None
        assert cached is not None
        assert 0 < cached < first


def test_a_probe_that_fails_becomes_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_suite.sys, "executable", "/bin/false")
    rows = compile_suite.measure_compile(SETTING, quick=True)
    assert [row.problem for row in rows] == [f"{name}_first" for name in PROBLEMS]
    assert {(row.us, row.error) for row in rows} == {(None, "ProbeFailed: exit status 1")}
