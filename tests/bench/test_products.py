"""Products that take turns: operands as cases say, right results told from wrong ones, and rows."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from bench import products
from bench.random_products import executable
from warpsmith import knobs

SMALL = products.Case(m=70, n=90, k=64)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"out": "float"},
        {"batch": 2, "dtype": "half", "out": "half"},
        {"batch": 2, "shared": True, "n": 91},
        {"dtype": "tf32", "out": "float"},
        {"dtype": "int8", "out": "int32"},
    ],
)
def test_cases_are_planned_and_right(changes: dict[str, object]) -> None:
    case = replace(SMALL, **changes)  # type: ignore[arg-type]
    a, b = products.operands(case, device="cpu")
    with knobs.scope(device="sim"):
        ready = executable(case).prepared([a, b])
        result = ready([a, b])[0]
    assert products.error_of(result, a, b) <= 1
    result.view(-1)[17] += 1
    assert products.error_of(result, a, b) > 1


def test_operands_lie_as_the_case_says() -> None:
    a, b = products.operands(replace(SMALL, a_fast="m", b_fast="n", batch=3), device="cpu")
    assert (a.shape, b.shape) == (torch.Size([3, 70, 64]), torch.Size([3, 64, 90]))
    assert (a.stride(-2), b.stride(-1)) == (1, 1)


def test_who_takes_part(monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(calls: dict[str, Callable[[], object]], *limits: float) -> dict[str, float]:
        return {name: 2.0 if name == "chosen" else 1.0 for name in calls}

    monkeypatch.setattr("warpsmith.testing.do_bench_interleaved", timed)
    turns = products.Turns({"m": 8}, lambda result: float(result[0]))
    for name, value in ((products.PEER, 3.0), ("chosen", 0.5), ("next 1", 9.0)):
        turns.add(name, lambda value=value: lambda: torch.full((2,), value))  # type: ignore[misc]
    turns.add("next 2", lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    cublas, chosen, wrong, broken = turns.timed(1.0, {"read": lambda: None, "copy": lambda: None})
    assert cublas["ceiling_us"] == 1000.0
    assert "read" not in (row["contender"] for row in turns.rows)
    assert cublas["ratio"] == 1.0
    assert (chosen["us"], chosen["cublas_us"], chosen["ratio"]) == (2000.0, 1000.0, 0.5)
    assert (wrong["m"], wrong["failed"]) == (8, "wrong: 9 of what rounding allows")
    assert broken["failed"].startswith("ZeroDivisionError")
    assert products.failures(turns.rows)[-2:] == [wrong, broken]
