"""The bench of scaled products runs where there is no GPU, and finds what is wrong."""

import json
from pathlib import Path

import pytest

from bench import float8
from warpsmith import knobs


def test_one_small_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.json"
    with knobs.scope(device="reference"):
        assert float8.main(["--quick", "--json", str(file)]) == 0
    rows = json.loads(file.read_text())["rows"]
    assert [row["scales"] for row in rows] == list(float8.KINDS)
    assert all(row["error"] < float8.LARGEST_ERROR for row in rows)
    assert capsys.readouterr().out.count("right") == len(rows)


def test_what_is_wrong_is_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(float8, "LARGEST_ERROR", 0.0)
    with knobs.scope(device="reference"):
        assert float8.main(["--quick"]) == 1
