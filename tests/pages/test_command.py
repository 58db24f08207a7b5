"""The command that writes pages."""

from pathlib import Path

import pytest

from pages import __main__ as command
from pages import roles


def test_a_page_is_written_between_its_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = (command.DOCS / "roles.md").read_text()
    (tmp_path / "roles.md").write_text(roles.SECTION.put(wanted, "stale"))
    monkeypatch.setattr(command, "DOCS", tmp_path)
    command.main(["roles.md"])
    assert (tmp_path / "roles.md").read_text() == wanted


def test_every_page_that_is_written_is_there() -> None:
    assert all((command.DOCS / name).is_file() for name in command.PAGES)
