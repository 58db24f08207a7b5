"""The sweep over products: what it draws, and that it tells right results from wrong ones."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch

from bench import products_sweep as sweep
from warpsmith import knobs

SMALL = sweep.Case(m=70, n=90, k=64)


def test_equal_seeds_draw_equal_cases_of_every_kind() -> None:
    first, again = ([sweep.draw(random.Random(7)) for _ in "ab"] for _ in "cd")
    assert first == again
    source = random.Random(3)
    cases = [sweep.draw(source) for _ in range(300)]
    assert {(c.a_fast, c.b_fast) for c in cases} == {(a, b) for a in "km" for b in "kn"}
    assert {c.k % 8 for c in cases} == set(range(8))
    assert {bool(c.batch) for c in cases} == {c.shared for c in cases} == {False, True}
    assert {c.out for c in cases} == {"bfloat16", "half", "float"}
    sizes = [size for c in cases for size in (c.m, c.n, c.k)]
    assert (min(sizes), max(sizes)) >= (sweep.LEAST, sweep.MOST // 2)
    assert max(sizes) <= sweep.MOST


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"out": "float"},
        {"batch": 2, "dtype": "half", "out": "half"},
        {"batch": 2, "shared": True, "n": 91},
    ],
)
def test_cases_are_planned_and_right(changes: dict[str, object]) -> None:
    case = replace(SMALL, **changes)  # type: ignore[arg-type]
    a, b = sweep.operands(case, device="cpu")
    with knobs.scope(device="sim"):
        call, schedulers = sweep.ours(case, a, b)
        result = call()
    assert schedulers == "matmul"
    assert sweep.error_of(result, a, b) <= 1
    result.view(-1)[17] += 0.5
    assert sweep.error_of(result, a, b) > 1


def test_operands_lie_as_the_case_says() -> None:
    a, b = sweep.operands(replace(SMALL, a_fast="m", b_fast="n", batch=3), device="cpu")
    assert (a.shape, b.shape) == (torch.Size([3, 70, 64]), torch.Size([3, 64, 90]))
    assert (a.stride(-2), b.stride(-1)) == (1, 1)


def test_the_summary_fails_where_something_is_refused_wrong_or_slow(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fine = {"title": "x", "us": 10.0, "torch_us": 9.0, "ratio": 0.9, "schedulers": "matmul"}
    fine |= {"error": 0.4, "torch_error": 0.4}
    assert sweep.summary([fine]) == 0
    assert sweep.summary([fine, fine | {"ratio": 0.3}]) == 1
    assert sweep.summary([fine, {"title": "y", "failed": "refused"}]) == 1
    assert "1 refused or wrong, 0 under a third\n     y: refused" in capsys.readouterr().out
