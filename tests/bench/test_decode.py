"""The table of products of few rows: what it compiles and times, and how it tells wrong ones."""

from typing import Any

import pytest
import torch

from bench import decode
from bench.products import beyond


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("mirrored", [False, True])
def test_contenders_are_of_different_kinds_and_the_best_comes_first(mirrored: bool) -> None:
    case, ways = decode.compiled(decode.Case(8, 136, 264, mirrored), 3, "h200")
    assert case.bytes == 2 * (136 * 264 + 8 * 264 + 8 * 136)
    assert len(ways) == 4
    kinds = {(p.swapped, p.tile[0], p.lines, p.splits, p.cluster, p.ping_pong) for p, _ in ways}
    assert len(kinds) == 4
    times = [us for _, us in ways]
    assert times == sorted(times)
    assert ways[0][0].tile[1] <= 16
    assert ways[0][0].swapped is not mirrored


TIMES = {"cublas_us": 1.0, "ceiling_us": 0.8}


def row(contender: str, ratio: float, **more: Any) -> dict[str, Any]:
    return {
        "n": 8,
        "k": 8,
        "m": 8,
        "contender": contender,
        "ratio": ratio,
        "us": 1.0,
        **TIMES,
        **more,
    }


def test_what_is_wrong_fails_and_a_better_choice_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [row("cublas", 1), row("chosen", 1.1, params="a"), row("other 1", 1.2, params="b")]
    assert decode.summary(rows) == 0
    out = capsys.readouterr().out
    assert "chosen: geometric mean 1.100" in out
    assert "best of those timed: geometric mean 1.200" in out
    assert "reading alone: geometric mean 1.250 of cuBLAS" in out
    assert " 80 %" in decode.text(decode.Case(8, 8, 8), rows[0])
    wrong = {"n": 8, "k": 8, "m": 8, "contender": "other 2", "failed": "wrong: 9"}
    assert decode.summary([*rows, wrong]) == 1
    assert "wrong: 9" in decode.text(decode.Case(8, 8, 8), wrong)


def test_errors_beyond_rounding() -> None:
    wanted = torch.full((2, 2), 100.0, dtype=torch.float64)
    assert beyond(wanted.bfloat16(), wanted, 64) < 1
    assert beyond((wanted + 3).bfloat16(), wanted, 64) > 1
