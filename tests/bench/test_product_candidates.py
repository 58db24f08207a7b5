"""The bench of candidates of products, as far as it needs no GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench import product_candidates as bench
from warpsmith import knobs


def row(name: str, us: float, *, ping_pong: int = 0, **more: Any) -> dict[str, Any]:
    size = {"m": 64, "n": 128, "k": 8, "epilogue": "none", "params": {"ping_pong": ping_pong}}
    return size | {"name": name, "us": us, "predicted": 10.0, "torch_us": 8.0} | more


def test_sizes_are_the_same_for_a_seed_and_multiples_of_8() -> None:
    cases = bench.drawn(3, 10)
    assert cases == bench.drawn(3, 10) != bench.drawn(4, 10)
    assert len(cases) == 2 * (len(bench.FIXED) + 10)
    for case in cases:
        assert case.m % 8 == case.n % 8 == case.k % 8 == 0
        assert 64 <= case.m <= 8192 or (case.m, case.n, case.k) in bench.FIXED


@pytest.mark.parametrize("epilogue", bench.EPILOGUES)
def test_both_strategies_are_compiled_without_a_gpu(tmp_path: Path, epilogue: str) -> None:
    with knobs.scope(cache_dir=tmp_path):
        found = bench.compiled(bench.Case(128, 64, 64, epilogue), 1, "h200")
    assert [failure for _, failure in found] == ["", ""]
    assert sorted(name.split()[0] for name, _ in found) == ["cooperative", "ping-pong"]


def test_rows_as_text() -> None:
    rows = [row("cooperative A", 12.0), row("ping-pong B", 10.0, ping_pong=2)]
    rows.append({**row("C", 0.0), "failed": "wrong"})
    del rows[-1]["us"]
    told = bench.told(rows).splitlines()
    assert told[0] == "64x128x8 none"
    assert told[1].endswith("ping-pong B")
    assert told[2].endswith("cooperative A <- the model's")
    assert told[-1] == "  failed: C: wrong"
    said = bench.summary([rows])
    assert "1 sizes; the choice takes 1.200 x the best, and is 0.667 x as fast as torch" in said
    assert "ping-pong is best at 1" in said
    assert said.endswith("1 failed")
