"""Shrinking finds short programs; the pool outlives what hangs and dies; the table counts."""

import os
import time

import pytest

from tests.programs import pool, run
from tests.programs.generate import generate
from tests.programs.judge import Verdict
from tests.programs.program import Input, Layout, Program
from tests.programs.run import Judged
from tests.programs.shrink import shrunk, tidied


def has_exp(program: Program) -> bool:
    return any(statement.op == "exp" for statement in program.statements)


def test_a_long_program_shrinks_to_what_fails() -> None:
    seed = next(
        seed
        for seed in range(200)
        if has_exp(tidied(generate(seed))) and len(generate(seed).statements) > 15
    )
    small = shrunk(generate(seed), has_exp, most=300)
    assert [statement.op for statement in small.statements] == ["exp"]
    assert len(small.inputs) == len(small.outputs) == 1
    (given,) = small.inputs
    assert isinstance(given, Input)
    assert given.layout == Layout()
    assert small.extent(given.dims[0]) <= 2


def test_what_does_not_fail_stays() -> None:
    program = generate(1)
    assert shrunk(program, lambda candidate: False) is program


time.sleep(float(os.environ.get("SLOW_IMPORT", 0)))


def work(item: str) -> str:
    if item == "hang":
        time.sleep(60)
    if item == "die":
        os._exit(3)
    return item.upper()


@pytest.mark.slow
def test_the_pool_replaces_processes(capfd: pytest.CaptureFixture[str]) -> None:
    items = ["a", "hang", "b", "die", "c"]
    found = dict(pool.each(work, items, jobs=2, seconds=2))
    assert "in work" in capfd.readouterr().err, "where it hangs is told"
    assert [found[item] for item in "abc"] == ["A", "B", "C"]
    assert found["hang"] == pool.Lost("no result after 2 s", True)
    assert found["die"] == pool.Lost("the process died (3)", False)


@pytest.mark.slow
def test_no_item_is_charged_for_a_slow_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process imports what it needs before its first item's time begins."""
    monkeypatch.setenv("SLOW_IMPORT", "1")
    assert list(pool.each(work, ["a"], jobs=1, seconds=0.5)) == [("a", "A")]


@pytest.mark.slow
def test_the_first_item_of_a_process_may_take_longer() -> None:
    found = dict(pool.each(nap, [1.5, 2.0], jobs=1, seconds=1, first=3))
    assert found == {1.5: 1.5, 2.0: pool.Lost("no result after 1 s", True)}


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def test_failures_are_grouped_without_names_and_numbers() -> None:
    found = [
        Judged(1, Verdict("refused", "WS0262", "T7 needs 12 elements", seconds=1.0)),
        Judged(2, Verdict("refused", "WS0262", "T91 needs 4 elements", seconds=2.0)),
        Judged(3, Verdict("passed", left_out=0.5, seconds=3.0)),
    ]
    text = run.table(found)
    assert "passed 1  refused 2  of 3" in text
    assert "2 refused WS0262 (seeds 1, 2)" in text
    assert "left out of comparison: 50.00 % of elements" in text
    assert "median 2.00, longest 3.00" in text
