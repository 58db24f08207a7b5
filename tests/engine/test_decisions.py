"""How another process cut a program for a call is taken, where that can be."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.support.binaries import UNCOMPILED
from tests.support.storable import CASES
from warpsmith import knobs
from warpsmith.engine import decisions, fitting
from warpsmith.engine.decisions import Decision
from warpsmith.planner.decided import Decided
from warpsmith.planner.segment import Unfit
from warpsmith.runtime import cache
from warpsmith.schedulers.table import SCHEDULERS


@pytest.fixture(autouse=True)
def nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "compile_source", lambda source: UNCOMPILED)


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[Decided]:
    """What searches ended with."""
    found: list[Decided] = []

    def noted(*args: Any) -> Decided:
        found.append(faster(*args))
        return found[-1]

    faster = fitting.faster
    monkeypatch.setattr(fitting, "faster", noted)
    return found


def texts(folder: Path, name: str = "several tensors are read once", rows: int = 0) -> list[str]:
    """The kernels of a program that this process has not met yet."""
    program, arrays, _ = CASES[name]
    given = [each[: rows or None] for each in arrays]
    with knobs.scope(cache_dir=folder, keep_emitted=True, target="h200"):
        return [each.cuda for each in warpsmith.fuse(program).lower(*given).compile().kernels]


def test_a_decision_is_searched_once(tmp_path: Path, searched: list[Decided]) -> None:
    first = texts(tmp_path)
    assert searched.pop() != Decided()
    assert texts(tmp_path) == first
    assert not searched
    texts(tmp_path, rows=512)
    texts(tmp_path, "a result across the others has its kernel")
    assert len(searched) == 2


def changed(folder: Path, decision: Decision) -> None:
    """Let the entry say something else."""
    (path,) = folder.glob("*.cut")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(decisions, "_name", lambda *given: path.stem)
        with knobs.scope(cache_dir=folder, keep_emitted=True, target="h200") as own:
            problem = type("Any", (), {"autotune": False})
            decisions.remember(decision, None, problem, own)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["cut", "unknown tensor", "no scheduler"])
def test_what_does_not_fit_is_searched_again(
    tmp_path: Path, searched: list[Decided], kind: str
) -> None:
    first = texts(tmp_path)
    (path,) = tmp_path.glob("*.cut")
    if kind == "cut":
        path.write_bytes(path.read_bytes()[:-3])
    elif kind == "unknown tensor":
        changed(tmp_path, Decision((), Decided(kept=frozenset((9999,)))))
    else:
        known = [each.scheduler for each in SCHEDULERS]
        changed(tmp_path, Decision(tuple(Unfit(each, "no reason") for each in known), Decided()))
    assert texts(tmp_path) == first
    assert len(searched) == 2


def test_nothing_is_kept_unless_asked(tmp_path: Path) -> None:
    with knobs.scope(keep_emitted=False, cache_dir=tmp_path, target="h200"):
        warpsmith.fuse(lambda x: x + x).lower(np.empty((64, 128), np.float32)).compile()
    assert not list(tmp_path.glob("*.cut"))
