"""The Python in the documentation runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


@pytest.mark.parametrize("page", [p for p in PAGES if BLOCK.search(p.read_text())], ids=str)
def test_python_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSMITH_CACHE_DIR", str(tmp_path))
    names: dict[str, object] = {}
    path = tmp_path / "page.py"
    path.write_text("\n".join(BLOCK.findall(page.read_text())))
    exec(compile(path.read_text(), path, "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text())
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert missing == []


def test_the_readme_table_is_the_benchmark_files() -> None:
    from bench.readme import readme_table

    assert readme_table(ROOT / "docs" / "benchmarks") in (ROOT / "README.md").read_text()
