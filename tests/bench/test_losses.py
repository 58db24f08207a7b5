"""The bench of cross entropy runs where there is no GPU, and finds what is wrong."""

import json
from pathlib import Path

import pytest

from bench import losses
from warpsmith import knobs


def test_small_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rows.json"
    options = ["--quick", "--z-loss", "1e-3", "--label-smoothing", "0.1", "--json", str(file)]
    with knobs.scope(device="reference"):
        assert losses.main(options) == 0
        rows = json.loads(file.read_text())["rows"]
        monkeypatch.setattr(losses, "LARGEST_ERROR", 0.0)
        monkeypatch.setattr(losses, "QUICK_SIZES", losses.QUICK_SIZES[:1])
        assert losses.main(options) == 1
    found = [(row["part"], row["contender"]) for row in rows if row["rows"] == 5]
    assert found == [
        *((part, name) for part in ("forward", "backward") for name in ("warpsmith", "torch")),
        *(("step", name) for name in ("warpsmith", "torch", "one pass")),
    ]
    assert all(row["error"] < 1e-2 for row in rows)


def test_sizes_are_drawn_by_a_seed() -> None:
    sizes = list(losses.drawn_sizes(3, 40))
    assert sizes == list(losses.drawn_sizes(3, 40)) != list(losses.drawn_sizes(4, 40))
    assert all(rows * classes <= losses.MOST_ELEMENTS for rows, classes in sizes)
    assert all(classes % 8 == 0 for _, classes in sizes[1::2])
    assert any(classes % 2 for _, classes in sizes)


def test_a_contender_that_fails_is_a_row() -> None:
    row = losses.Timed(part="step", rows=8, classes=9, contender="liger", failure="no such thing")
    assert "failed: no such thing" in losses.shown(row)
    fast = losses.Timed(
        part="step",
        rows=8,
        classes=9,
        contender="warpsmith",
        us=200.0,
        ceiling_us=100.0,
        own_ceiling_us=150.0,
        error=0.0,
    )
    assert "50.0 % of the ceiling, 75.0 of that of its bytes" in losses.shown(fast)
