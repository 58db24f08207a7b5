"""Who may import whom, read from the sources; and what `import warpsmith` costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "warpsmith"

FORM = {"layouts", "ir"}
ALLOWED: dict[str, set[str]] = {
    "callers": set(),
    "native": set(),
    "targets": {"layouts"},
    "errors": {"callers"},
    "knob_kinds": set(),
    "locks": set(),
    "reach": set(),
    "values": set(),
    "knobs": {"knob_kinds"},
    "layouts": set(),
    "ir": {"layouts"},
    "ops": FORM,
    "schedule": FORM | {"ops"},
    "schedulers": FORM | {"ops", "schedule"},
    "planner": FORM | {"ops", "schedule", "schedulers"},
    "kernel": FORM,
    "protocol": FORM | {"kernel"},
    "lower": FORM | {"kernel"},
    "codegen": FORM | {"ops", "kernel", "protocol", "lower"},
    "runtime": set(),
    "sim": set(),
    "testing": {"runtime"},
}
"""What each part may import besides itself, and `SEEN_BY_ALL`."""

ALLOWED["engine"] = set(ALLOWED)
ALLOWED["page"] = set(ALLOWED)
ALLOWED["frontends"] = set(ALLOWED)
ALLOWED["nn"] = set(ALLOWED) - {"page"}
ALLOWED["torch_backend"] = set(ALLOWED) - {"page"}
ALLOWED["tools"] = set(ALLOWED) - {"nn", "torch_backend"}
"""Above them, each sees what is below it."""

SEEN_BY_ALL = {"callers", "errors", "knobs", "locks", "native", "reach", "targets", "values"}
PACKAGE_ITSELF = {"__init__", "__main__"}


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


class Import(NamedTuple):
    module: str
    line: int
    early: bool
    """Whether it is imported with the module that has the line."""


@cache
def imports_of(path: Path) -> tuple[Import, ...]:
    """What a file imports, wherever in it."""
    return tuple(_imports(ast.parse(path.read_text())))


def _imports(tree: ast.Module) -> Iterator[Import]:
    early = set(map(id, module_level(tree)))
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            yield Import(name, node.lineno, id(node) in early)


def wrong_imports(path: Path) -> list[str]:
    """Imports of a file that go against the direction."""
    part = part_of(path)
    if part in PACKAGE_ITSELF:
        return []
    allowed = ALLOWED[part] | SEEN_BY_ALL | {part}
    found = []
    for module, line, _ in imports_of(path):
        names = module.split(".")
        known = (len(names) > 1 and (PACKAGE / names[1]).exists()) or (
            len(names) > 1 and (PACKAGE / f"{names[1]}.py").exists()
        )
        if names[0] == "warpsmith" and known and names[1] not in allowed:
            found.append(f"{path.relative_to(ROOT)}:{line} imports {module}")
    return found


def module_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """Statements that run when the module is imported; `if TYPE_CHECKING` does not."""
    pending = list(tree.body)
    while pending:
        statement = pending.pop()
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
            continue
        yield statement
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            children = ast.iter_child_nodes(statement)
            pending += [child for child in children if isinstance(child, ast.stmt)]


def test_every_part_is_known() -> None:
    parts = {part_of(path) for path in PACKAGE.rglob("*.py")}
    assert parts <= set(ALLOWED) | PACKAGE_ITSELF


@pytest.mark.parametrize("part", sorted(ALLOWED))
def test_imports_go_one_way(part: str) -> None:
    files = [path for path in PACKAGE.rglob("*.py") if part_of(path) == part]
    assert files
    assert not [wrong for path in files for wrong in wrong_imports(path)]


def test_a_wrong_direction_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path / "warpsmith")
    (tmp_path / "warpsmith" / "ir").mkdir(parents=True)
    (tmp_path / "warpsmith" / "ops").mkdir()
    culprit = tmp_path / "warpsmith" / "ir" / "scalar.py"
    culprit.write_text("def f():\n    from warpsmith import ops\n")
    assert wrong_imports(culprit) == ["warpsmith/ir/scalar.py:2 imports warpsmith.ops"]


def needs_of(modules: Mapping[str, Path]) -> dict[str, set[str]]:
    """What each module imports of the others, also for types, and inside functions."""
    return {
        name: {m for m, *_ in imports_of(path) if m in modules} - {name}
        for name, path in modules.items()
    }


def circles(needs: Mapping[str, set[str]]) -> list[set[str]]:
    """Largest sets of names each of which needs all others, by ways of any length."""
    reached: dict[str, set[str]] = {}
    for name in needs:
        found: set[str] = set()
        pending = [name]
        while pending:
            new = needs[pending.pop()] - found
            found |= new
            pending += new
        reached[name] = found
    joined = {
        frozenset(other for other in found if name in reached[other])
        for name, found in reached.items()
        if name in found
    }
    return sorted(map(set, joined), key=min)


def test_neither_modules_nor_parts_need_each_other() -> None:
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py"
    }
    needs = needs_of(modules)
    assert not circles(needs)
    parts: dict[str, set[str]] = {}
    for name, needed in needs.items():
        part = part_of(modules[name])
        parts.setdefault(part, set()).update({part_of(modules[each]) for each in needed} - {part})
    assert not circles(parts)


def test_a_circle_is_found(tmp_path: Path) -> None:
    texts = {"a": "import b", "b": "def f():\n    import c", "c": "import a", "d": "import a"}
    modules = {name: tmp_path / f"{name}.py" for name in texts}
    for name, text in texts.items():
        modules[name].write_text(text)
    assert circles(needs_of(modules)) == [{"a", "b", "c"}]


def test_torch_is_never_imported_with_a_module() -> None:
    guilty = [
        str(path.relative_to(ROOT))
        for path in PACKAGE.rglob("*.py")
        if "torch" not in path.name and part_of(path) not in ("nn", "torch_backend")
        for module, _, early in imports_of(path)
        if early and module.split(".")[0] in ("torch", "triton", "cupy")
    ]
    assert not guilty


def test_importing_warpsmith_imports_nothing_heavy() -> None:
    program = (
        "import sys, warpsmith\n"
        "heavy = {'torch', 'numpy', 'cuda', 'rich', 'typer'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "warpsmith.fuse\n"
        "import warpsmith.frontends.lowered\n"
        "rooms = {name.split('.')[1] for name in sys.modules if name.count('.') == 2}\n"
        "assert not {'codegen', 'protocol'} & rooms, 'for kernels from the disk'\n"
        "assert 'warpsmith.lower.pipeline' not in sys.modules\n"
        "for name in warpsmith.__all__:\n"
        "    assert getattr(warpsmith, name) is not None\n"
        "assert set(warpsmith.__all__) <= set(dir(warpsmith))\n"
        "from warpsmith import *\n"
        "assert not {'torch', 'rich', 'typer'} & set(sys.modules), 'after all names'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def test_unknown_names_are_refused() -> None:
    import warpsmith

    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        warpsmith.nonsense  # noqa: B018  # the access is what is tested
