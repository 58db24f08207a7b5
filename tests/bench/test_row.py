"""Rows and their files."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.row import Row, read_rows, write_rows
from warpsmith.errors import ArgumentError

ROW = Row(
    suite="pointwise",
    problem="silu_mul",
    shape=(8192, 1024),
    dtype="bfloat16",
    impl="warpsmith",
    us=17.9,
    ceiling_us=17.4,
    pct_ceiling=97.21,
    rel_err=0.00166,
    gpu="NVIDIA H200",
    versions=(("torch", "2.11.0"), ("warpsmith", "0.1.0")),
    date="2026-11-21",
)


def test_rows_come_back_from_a_file_as_they_were(tmp_path: Path) -> None:
    failed = replace(ROW, impl="torch", us=None, error="ValueError: wrong result")
    path = tmp_path / "new" / "pointwise.json"
    write_rows(path, [ROW, failed])
    assert read_rows(path) == [ROW, failed]
    assert [file.name for file in path.parent.iterdir()] == ["pointwise.json"]


def test_what_a_run_has_in_common_is_said_once(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    rows = [ROW, replace(ROW, us=18.0, rel_err=None), replace(ROW, seed=7, error="no")]
    write_rows(path, rows)
    first, second = json.loads(path.read_text())
    assert list(first) == ["suite", "gpu", "versions", "date", "rows"]
    assert first["versions"] == {"torch": "2.11.0", "warpsmith": "0.1.0"}
    keys = "problem shape dtype impl us ceiling_us pct_ceiling rel_err"
    assert [list(row) for row in first["rows"]] == [keys.split(), keys.split()[:-1]]
    assert (second["seed"], second["rows"][0]["error"]) == (7, "no")
    assert read_rows(path) == rows


def test_a_number_that_json_lacks_is_refused_and_the_old_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    write_rows(path, [ROW])
    with pytest.raises(ValueError, match="JSON"):
        write_rows(path, [replace(ROW, rel_err=float("nan"))])
    assert read_rows(path) == [ROW]


@pytest.mark.parametrize(("key", "change"), [("speed", {"speed": 1}), ("gpu", {"gpu": None})])
def test_what_is_no_row_is_refused(tmp_path: Path, key: str, change: dict[str, object]) -> None:
    content = {**ROW.run, "rows": [ROW.as_json()], **change}
    if content[key] is None:
        del content[key]
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([content]))
    with pytest.raises(ArgumentError, match=f"{key!r} is unknown or missing"):
        read_rows(path)
