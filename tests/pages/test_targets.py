"""The table of targets in the documentation is that of the values."""

from pathlib import Path

from pages.targets import table, written

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "targets.md").read_text()


def test_the_page_has_the_table() -> None:
    assert written(PAGE) == PAGE, "make docs writes it"


def test_a_line_a_number() -> None:
    assert "| `memory` | 4,814,304: driver's clock and bus" in table()
    assert "| `clusters` | 66 of 2, 30 of 4, 15 of 8, 7 of 16: driver" in table()
