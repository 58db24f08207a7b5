"""The bench of products by group tells right results from wrong ones."""

import pytest

from bench import grouped
from warpsmith import knobs


def test_results_are_held_against_each_expert() -> None:
    case = grouped.Case(rows=(0, 3, 70), n=40, k=64, spare=9)
    given = grouped.operands(case, device="cpu")
    with knobs.scope(device="sim"):
        calls = grouped.contenders(case, *given)
        result = calls["grouped"]()
    assert set(calls) == {"grouped", "one", "torch_one"}
    assert grouped.worst_error(case, result, *given[:2]) <= 1
    result[2, 5] += 0.5
    assert grouped.worst_error(case, result, *given[:2]) > 1
    result[2, 5] -= 0.5
    result[-1, 0] = 1
    assert grouped.worst_error(case, result, *given[:2]) > 1


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        ({"error": 0.5, "ratio": 0.96}, False),
        ({"error": 0.5, "ratio": 0.94}, True),
        ({"error": 1.5, "ratio": 1.0}, True),
        ({"failure": "no"}, True),
    ],
)
def test_what_fails(row: dict[str, float], wrong: bool) -> None:
    assert grouped.failed(row) is wrong


def test_cases_are_the_same_for_a_seed_and_hold_what_is_asked() -> None:
    assert grouped.cases(3) == grouped.cases(3) != grouped.cases(4)
    asked = [case for case in grouped.cases(0) if len(case.rows) == 16]
    assert all((case.n, case.k) == (4096, 7168) and max(case.rows) <= 4096 for case in asked)
