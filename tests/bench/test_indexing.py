"""The bench of slices, choices and orders runs where there is no GPU, and finds what is wrong."""

import json
from pathlib import Path

import pytest

from bench import indexing
from warpsmith import knobs


def test_small_sizes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = tuple(case for case in indexing.cases() if case.name not in ("index_add", "argsort"))
    monkeypatch.setattr(indexing, "cases", lambda: few)
    file = tmp_path / "rows.json"
    with knobs.scope(device="reference"):
        assert indexing.main(["--quick", "--json", str(file)]) == 0
    rows = json.loads(file.read_text())["rows"]
    assert {row["case"]: row["kernels"] for row in rows if row["kernels"]} == {
        "embedding": 1,
        "gated halves": 1,
        "cat": 1,
        "rotary": 1,
        "embedding and norm": 1,
        "topk of experts": 2,
    }
    assert capsys.readouterr().out.count("right") == len(rows)
    monkeypatch.setattr(indexing, "cases", lambda: few[1:2])
    monkeypatch.setattr(indexing, "LARGEST_ERROR", 0.0)
    with knobs.scope(device="reference"):
        assert indexing.main(["--quick"]) == 1
