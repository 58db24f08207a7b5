"""The suite that times the simulator: its kernels are clean and right, its rows have limits."""

from functools import lru_cache

import pytest

from bench import sim
from bench.measure import Setting
from bench.row import Row
from bench.table import tables
from warpsmith.errors import SimulationError

SETTING = Setting(peers="none", gpu="none", versions=(("torch", "2"),), date="2026-11-21")


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sim, "_QUICK_TIMES", 1)
        patch.setattr(sim, "_ROWS", 8)
        patch.setattr(sim, "_K", 128)
        return sim.measure_sim(SETTING, quick=True)


def test_every_problem_has_a_time_and_a_limit(rows: list[Row]) -> None:
    assert [row.error for row in rows] == [None] * 5
    assert [row.limit_us for row in rows] == [4.0, 4.0, 5e6, 5e6, 1e6]
    assert all(row.us for row in rows)
    assert {row.suite for row in rows} == {"sim"}
    assert "cores" in rows[0].gpu


def test_the_table_compares_with_the_limits(rows: list[Row]) -> None:
    (table,) = tables(rows)
    assert table.columns == ("problem", "µs", "limit µs", "a second", "% of the limit")
    assert [line[0] for line in table.lines][2:4] == [
        "norm_backward 8x2048",
        "matmul_tile 128x256x128",
    ]
    assert [line[2] for line in table.lines] == ["4", "4", "5,000,000", "5,000,000", "1,000,000"]


def test_a_problem_that_fails_is_a_row_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise SimulationError("no compiler")

    monkeypatch.setattr(sim, "ptx_of", lambda kernel: "\n" * sim.LINES)
    monkeypatch.setattr(sim, "read", lru_cache(refuse))
    monkeypatch.setattr(sim, "run", refuse)
    found = sim.measure_sim(SETTING, quick=True)
    assert {row.error for row in found} == {"SimulationError: [WS0800] no compiler"}
    assert all(row.us is None for row in found)
