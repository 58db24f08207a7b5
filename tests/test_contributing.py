"""The recipes of CONTRIBUTING.md, carried out in a copy of the package, do what they say."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
STEP = re.compile(
    r"[Ii]n\s+`(?P<file>[\w/]+\.py)`, (?P<how>new|at the end|(?:behind|in place of) `[^`]+`):\n\n"
    r"```\w+\n(?P<text>.*?)```\n",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Step:
    """One edit: what becomes of a file."""

    file: str
    how: str
    text: str

    def carry_out(self, root: Path) -> None:
        path = root / self.file
        if self.how == "new":
            assert not path.exists()
            path.write_text(self.text)
            return
        before = path.read_text()
        if self.how == "at the end":
            path.write_text(before + self.text)
            return
        line = self.how[self.how.index("`") + 1 : -1] + "\n"
        assert f"\n{line}" in before, f"{self.file} has no line {line!r}"
        kept = line if self.how.startswith("behind") else ""
        path.write_text(before.replace(f"\n{line}", f"\n{kept}{self.text}", 1))


def recipes() -> dict[str, list[Step]]:
    """The steps of each section that has any, by its heading."""
    parts = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)
    found = {
        heading: [Step(*match.group("file", "how", "text")) for match in STEP.finditer(text)]
        for heading, text in zip(parts[1::2], parts[2::2], strict=True)
    }
    return {heading: steps for heading, steps in found.items() if steps}


def added() -> list[str]:
    """The files of all steps."""
    return sorted({step.file for steps in recipes().values() for step in steps})


TRIED = """
import runpy
import numpy as np
import warpsmith
from warpsmith import knobs, ops
from warpsmith.kernel.printer import kernel_text
from warpsmith.lower.pipeline import lower
from warpsmith.targets.known import named

random = np.random.default_rng(0)


@warpsmith.fuse
def lengths(a, b):
    return ops.hypot(a, b)


a, b = random.standard_normal((2, 3, 50)).astype(np.float32)
wanted = np.sqrt(a.astype(float) ** 2 + b.astype(float) ** 2)
np.testing.assert_allclose(lengths(a, b), wanted, rtol=1e-6)
assert "made for h100_nvl (sm_90a)" in lengths.lower(a, b).compile(target="h100_nvl").explain()
assert lengths.lower(a, b).compile().verify(schedules=2).verdict == "clean"


@warpsmith.fuse
def parities(x):
    return ops.xor(x, [1])


x = random.integers(0, 99, (3, 300))
np.testing.assert_array_equal(parities(x), np.bitwise_xor.reduce(x, 1))

roles = runpy.run_path("examples/roles_by_hand.py")["scheduled"]()
fusion, index = roles.fusion, warpsmith.DataType.Int32
kernel = lower(fusion, "k", index, target=named("h200"))
assert "  count event 0" in kernel_text(kernel).splitlines()
x = random.standard_normal((4, 256)).astype(np.float32)
roles.manual_execute([x])
assert roles.verify([x], schedules=2).verdict == "clean"
print("all of it works")
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, its tests, its pages and the examples, with all recipes carried out."""
    root = tmp_path_factory.mktemp("contributed")
    for folder in ("warpsmith", "pages", "examples", "tests"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root)
    for steps in recipes().values():
        for step in steps:
            step.carry_out(root)
    return root


def test_recipes_work_together(copy: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(copy), "WARPSMITH_VERIFY": "all"}
    done = subprocess.run(
        [sys.executable, "-c", TRIED], cwd=copy, env=environment, capture_output=True, text=True
    )
    assert done.stdout.endswith("all of it works\n"), done.stderr[-3000:]


@pytest.mark.slow
def test_what_is_added_needs_no_change_of_a_test(copy: Path) -> None:
    files = ("ops/test_table.py", "targets/test_values.py", "targets/test_one_place.py")
    chosen = "hypot or nvfuser or targets"
    paths = [f"tests/{file}" for file in files]
    command = [sys.executable, "-m", "pytest", "-q", *paths, "-k", chosen]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.slow
def test_what_is_added_has_its_types(copy: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", *added()]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_recipes_take_as_many_files_as_they_say(copy: Path) -> None:
    counted = {heading: len({step.file for step in steps}) for heading, steps in recipes().items()}
    assert list(counted.values()) == [2, 2, 4, 2]
    for heading, count in counted.items():
        said = re.findall(r"\d+", heading)
        assert not said or str(count) == said[-1], heading


def test_what_is_added_keeps_the_style(copy: Path) -> None:
    for words in (["format", "--check"], ["check", "--no-cache"]):
        command = [sys.executable, "-m", "ruff", *words, *added()]
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


def test_files_that_recipes_name_are_there(copy: Path) -> None:
    named = set(re.findall(r"`((?:warpsmith|tests)/[\w/]+\.py)`", PAGE))
    assert len(named) > 10
    assert [name for name in named if not ((copy / name).exists() or (ROOT / name).exists())] == []
