"""The Python in the documentation runs as it stands."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "warpsmith"
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"\bWS\d{4}\b")
SPAN = re.compile(r"\b(WS\d{4}) to (WS\d{4})\b")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


@pytest.mark.parametrize("page", [p for p in PAGES if BLOCK.search(p.read_text())], ids=str)
def test_python_runs(page: Path, tmp_path: Path) -> None:
    names: dict[str, object] = {}
    path = tmp_path / "page.py"
    path.write_text("\n".join(BLOCK.findall(page.read_text())))
    exec(compile(path.read_text(), path, "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text())
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert missing == []


def test_the_tables_of_benchmarks_are_those_of_the_rows() -> None:
    from bench.readme import PAGES, pages

    stale = [path for path, content in pages(ROOT) if content not in path.read_text()]
    assert stale == []
    assert {path.stem for path in (ROOT / "docs" / "benchmarks").glob("*.md")} == set(PAGES)


def raised_codes(modules: Iterable[Path]) -> set[str]:
    """Every code that the text of these modules names."""
    return {code for path in modules for code in CODE.findall(path.read_text())}


def listed_codes(page: Path) -> set[str]:
    """The codes that a page names, one by one or as a span."""
    text = page.read_text()
    found = set(CODE.findall(text))
    for first, last in SPAN.findall(text):
        found |= {f"WS{n:04}" for n in range(int(first[2:]), int(last[2:]) + 1)}
    return found


@pytest.mark.parametrize("page", [p for p in PAGES if CODE.search(p.read_text())], ids=str)
def test_codes_on_a_page_are_raised(page: Path) -> None:
    assert set(CODE.findall(page.read_text())) - raised_codes(PACKAGE.rglob("*.py")) == set()


def test_every_refusal_of_roles_is_listed() -> None:
    """Codes of schedules with roles, of registers, and of the protocol check."""
    modules = ["schedule/roles.py", "ir/slices.py", "lower/roles.py", "lower/channels.py"]
    modules += ["lower/specialize.py", "engine/budgets.py", "engine/confirm.py"]
    paths = [*(PACKAGE / module for module in modules), *(PACKAGE / "protocol").glob("*.py")]
    wanted = raised_codes(paths)
    assert len(wanted) > 30
    assert wanted - listed_codes(ROOT / "docs" / "roles.md") == set()


def test_the_passes_are_those_of_the_pipeline() -> None:
    from warpsmith.lower.pipeline import PASSES

    page = (ROOT / "docs" / "architecture.md").read_text()
    listed = re.findall(r"^(\d+)\. `(\w+)`", page, re.MULTILINE)
    assert listed == [(str(n), each.name) for n, each in enumerate(PASSES, start=1)]
