"""The Python in the documentation runs as it stands."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "warpsmith"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
"""Its Python is carried out by test_contributing.py."""
PAGES = sorted([ROOT / "README.md", CONTRIBUTING, *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"\bWS\d{4}\b")
SPAN = re.compile(r"\b(WS\d{4}) to (WS\d{4})\b")
LINK = re.compile(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)")


@pytest.mark.parametrize(
    "page", [p for p in PAGES if p != CONTRIBUTING and BLOCK.search(p.read_text())], ids=str
)
def test_python_runs(page: Path, tmp_path: Path) -> None:
    names: dict[str, object] = {}
    path = tmp_path / "page.py"
    path.write_text("\n".join(BLOCK.findall(page.read_text())))
    exec(compile(path.read_text(), path, "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    missing = []
    for target, anchor in LINK.findall(page.read_text()):
        path = page.parent / target if target else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            missing.append(f"{target}#{anchor}")
    assert missing == []


def anchors(page: Path) -> set[str]:
    """The names by which a page's headings are linked."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h).strip().lower().replace(" ", "-") for h in headings}


def test_pages_that_code_cites_are_there() -> None:
    folders = ("warpsmith", "bench", "pages", "tests", "examples")
    cited = {
        name
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        for name in re.findall(r"\bdocs/[\w/.-]*\w\.(?:md|json|svg)\b", path.read_text())
    }
    assert len(cited) > 15
    assert sorted(name for name in cited if not (ROOT / name).exists()) == []


MOST_WORDS = 1500
MOST_WORDS_OF = {"docs/architecture.md": 2500}
MOST_BYTES = 2_000_000
PRINTED = re.compile(r"<!-- [\w-]+.*?-->.*?<!-- end.*?-->", re.DOTALL)
"""What a command wrote into a page."""


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_pages_are_short(page: Path) -> None:
    """Words as `wc -w` counts them, without what a command printed between two marks."""
    words = len(PRINTED.sub("", page.read_text()).split())
    assert words <= MOST_WORDS_OF.get(str(page.relative_to(ROOT)), MOST_WORDS)


MOST_WORDS_OF_A_FINDING = 80


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "lessons").glob("*.md")), ids=str)
def test_lessons_are_one_finding_each(page: Path) -> None:
    parts = PRINTED.sub("", page.read_text()).split("\n\n")
    findings = [part for part in parts if not part.startswith(("|", "#", "!"))]
    assert max(len(part.split()) for part in findings) <= MOST_WORDS_OF_A_FINDING


def test_documentation_is_small() -> None:
    files = [path for path in (ROOT / "docs").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES


def test_raw_rows_are_linked_by_a_page() -> None:
    pages = "".join(page.read_text() for page in PAGES)
    data = (ROOT / "docs" / "lessons" / "data").iterdir()
    assert [path.name for path in data if f"data/{path.name})" not in pages] == []


def test_the_tables_of_benchmarks_are_those_of_the_rows() -> None:
    from bench.readme import PAGES, pages

    stale = [path for path, content in pages(ROOT) if content not in path.read_text()]
    assert stale == []
    assert {path.stem for path in (ROOT / "docs" / "benchmarks").glob("*.md")} == {
        *PAGES,
        "written",
    }


@cache
def raised_codes(modules: frozenset[Path]) -> set[str]:
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
    assert (
        set(CODE.findall(page.read_text())) - raised_codes(frozenset(PACKAGE.rglob("*.py")))
        == set()
    )


def test_every_refusal_of_roles_is_listed() -> None:
    """Codes of schedules with roles, of registers, and of the protocol check."""
    modules = [
        "schedule/roles.py",
        "ir/slices.py",
        "lower/roles.py",
        "lower/channels.py",
        "lower/stage_order.py",
    ]
    modules += ["lower/agents.py", "lower/specialize.py", "engine/budgets.py"]
    paths = [*(PACKAGE / module for module in modules), *(PACKAGE / "protocol").glob("*.py")]
    wanted = raised_codes(frozenset(paths))
    assert len(wanted) > 30
    missing = wanted - listed_codes(ROOT / "docs" / "refusals.md")
    assert not missing, f"docs/refusals.md has no row for {missing}"


def test_files_that_pages_name_are_there() -> None:
    """By the end of their paths; lessons speak of their own day."""
    folders = ("warpsmith", "bench", "pages", "tests", "examples")
    files = [str(path) for folder in folders for path in (ROOT / folder).rglob("*.py")]
    missing = [
        f"{page.name}: {name}"
        for page in PAGES
        if "lessons" not in page.parts and page != CONTRIBUTING
        for name in re.findall(r"`([\w/]+\.py)`", page.read_text())
        if not any(path.endswith(f"/{name}") for path in files)
    ]
    assert missing == []


def test_the_passes_are_those_of_the_pipeline() -> None:
    from warpsmith.lower.pipeline import PASSES

    page = (ROOT / "docs" / "lowering.md").read_text()
    listed = re.findall(r"^1\. `(\w+)`: ", page, re.MULTILINE)  # shown as 1, 2, 3
    assert listed == [each.name for each in PASSES], "docs/lowering.md lists them in their order"


def test_the_schedulers_are_those_that_are_asked() -> None:
    from warpsmith.schedulers.table import SCHEDULERS

    page = (ROOT / "docs" / "schedulers.md").read_text()
    table = page[page.index("| scheduler |") :].split("\n\n")[0]
    listed = re.findall(r"^\| (\w+) \|", table, re.MULTILINE)[1:]
    assert listed == [kind.scheduler for kind in SCHEDULERS], (
        "docs/schedulers.md lists them in their order"
    )
