"""Kernels that another process left: taken where they are the same, else made again."""

import hashlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import warpsmith
from tests.engine.test_compiling_together import gradient
from tests.support.binaries import UNCOMPILED
from warpsmith import knobs
from warpsmith.engine import emission, proofs
from warpsmith.engine import emitted as module
from warpsmith.engine.compiled import CompiledKernel
from warpsmith.engine.emitted import EmittedCache, cause, name_of, text_of
from warpsmith.engine.plan import plan
from warpsmith.errors import InternalError, ProtocolError
from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Const, Symbol
from warpsmith.runtime import cache
from warpsmith.runtime.source import Binary, Source
from warpsmith.targets.hopper import H200


def kernels(
    directory: Path, rows: int = 4096, function: Callable[..., Any] = gradient, **more: object
) -> tuple[CompiledKernel, ...]:
    """Those of a program that this process has not met yet."""
    asked = {"cache_dir": directory, "keep_emitted": True, "target": "h200", **more}
    with knobs.scope(**asked):
        x = np.empty((rows, 1024), np.float32)
        return warpsmith.fuse(function).lower(x).compile().kernels


@pytest.fixture(autouse=True)
def nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "compile_source", lambda source: UNCOMPILED)


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The schedulers whose fusions were lowered, in order."""
    return noted(monkeypatch, emission, "lower")


@pytest.fixture
def proved(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A word for each proof."""
    return noted(monkeypatch, proofs, "prove")


def noted(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> list[str]:
    seen: list[str] = []
    known = getattr(module, name)

    def counted(*arguments: Any, **named: Any) -> Any:
        seen.append(name)
        return known(*arguments, **named)

    monkeypatch.setattr(module, name, counted)
    return seen


def test_what_was_kept_is_neither_scheduled_nor_lowered_nor_proved(
    tmp_path: Path, lowered: list[str], proved: list[str]
) -> None:
    first = kernels(tmp_path)
    assert (len(first), len(lowered), len(proved)) == (2, 2, 2)
    again = kernels(tmp_path)
    assert again == first
    assert [each.kernel.orders for each in again] == [each.kernel.orders for each in first]
    assert (len(lowered), len(proved)) == (2, 2)


def test_a_kernel_is_kept_while_nvrtc_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = threading.Barrier(2, timeout=60)
    store = EmittedCache.store

    def stored(*entry: Any) -> None:
        store(*entry)
        kept.wait()

    def compiled(source: Source) -> Binary:
        kept.wait()
        return UNCOMPILED

    monkeypatch.setattr(EmittedCache, "store", stored)
    monkeypatch.setattr(cache, "compile_source", compiled)
    assert kernels(tmp_path, function=lambda x: x + x)


def test_other_sizes_of_a_kernel_are_proved_and_then_known(
    tmp_path: Path, lowered: list[str], proved: list[str]
) -> None:
    first = kernels(tmp_path)
    again = kernels(tmp_path, 4090)
    assert [each.name for each in again] == [each.name for each in first]
    assert (len(lowered), len(proved)) == (2, 3), "sums of columns see blocks, as many as before"
    kernels(tmp_path, 4090)
    assert (len(lowered), len(proved)) == (2, 3)


def test_what_cannot_be_proved_at_other_sizes_is_refused_as_a_new_kernel(
    tmp_path: Path, lowered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels(tmp_path)
    lowered.clear()

    def fails(*arguments: object) -> int:
        raise ProtocolError("it hangs", code="WS0900", rule="test")

    monkeypatch.setattr(proofs, "prove", fails)
    with pytest.raises(ProtocolError, match="it hangs"):
        kernels(tmp_path, 4090)
    assert lowered


def test_what_nobody_proved_is_proved_when_that_is_asked(
    tmp_path: Path, lowered: list[str], proved: list[str]
) -> None:
    kernels(tmp_path, verify="off")
    assert proved == []
    kernels(tmp_path)
    assert (len(lowered), len(proved)) == (2, 2)


@pytest.mark.parametrize("kept", [0, 10, 100, -1])
def test_a_part_of_an_entry_is_none(tmp_path: Path, lowered: list[str], kept: int) -> None:
    first = kernels(tmp_path)
    for path in tmp_path.glob("*.kernel"):
        path.write_bytes(path.read_bytes()[:kept])
    assert kernels(tmp_path) == first == kernels(tmp_path)
    assert len(lowered) == 4


class Foreign:
    """Calls a function when it is read."""

    def __init__(self, made: Callable[..., object], *arguments: object) -> None:
        self.made, self.arguments = made, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.made, self.arguments


@pytest.mark.parametrize(
    "value",
    [
        Foreign(os.mkdir, "made"),
        Foreign(integers.add, 1, 2),
        Foreign(Const),
        "no kernel at all",
    ],
    ids=["function", "function of warpsmith", "class without arguments", "text"],
)
def test_entries_make_kernels_and_nothing_else(
    tmp_path: Path, lowered: list[str], monkeypatch: pytest.MonkeyPatch, value: object
) -> None:
    monkeypatch.chdir(tmp_path)
    first = kernels(tmp_path)
    body = pickle.dumps(value, protocol=5)
    for path in tmp_path.glob("*.kernel"):
        head = path.read_bytes().partition(b"\n")[0] + b"\n"
        named = path.stem.encode() + b"\n"
        path.write_bytes(head + hashlib.sha256(named + body).digest() + body)
    assert kernels(tmp_path) == first
    assert len(lowered) == 4
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "asked",
    [
        {"keep_emitted": False},
        {"keep_emitted": "auto"},
        {"dump": "build", "dump_dir": "dumps"},
        {"override_dir": "edited"},
        {"watchdog": True},
    ],
    ids=str,
)
def test_knobs_that_look_at_a_kernel_on_its_way_keep_none(
    tmp_path: Path, lowered: list[str], asked: dict[str, Any]
) -> None:
    paths = {name: tmp_path / value for name, value in asked.items() if "_dir" in name}
    kernels(tmp_path, **asked | paths)
    assert list(tmp_path.glob("*.kernel")) == []
    kernels(tmp_path)
    kernels(tmp_path, **asked | paths)
    assert len(lowered) == 6


def test_what_is_installed_keeps_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "is_checkout", lambda: False)
    kernels(tmp_path, keep_emitted="auto")
    assert len(list(tmp_path.glob("*.kernel"))) == 2


def test_always_compile_lowers_what_is_kept_and_keeps_it_again(
    tmp_path: Path, lowered: list[str]
) -> None:
    kernels(tmp_path)
    for path in tmp_path.glob("*.kernel"):
        path.write_bytes(b"")
    kernels(tmp_path, always_compile=True)
    kernels(tmp_path)
    assert len(lowered) == 4


@pytest.mark.parametrize(
    "other",
    [
        {"target": "h100"},
        {"early_launch": False},
        {"verify": "all"},
        {"function": lambda x: gradient(x + 1)},
        {"function": lambda x: gradient(x * 2)},
    ],
    ids=["target", "early_launch", "verify", "operation", "constant"],
)
def test_kernels_that_follow_from_something_else_are_others(
    tmp_path: Path, lowered: list[str], other: dict[str, Any]
) -> None:
    kernels(tmp_path)
    alone = kernels(tmp_path / "alone", **other)
    lowered.clear()
    assert kernels(tmp_path, **other) == alone
    assert lowered


def test_warpsmith_itself_is_a_part_of_a_name(tmp_path: Path, lowered: list[str]) -> None:
    kernels(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "files", lambda left_out: "another version")
        kernels(tmp_path)
        assert len(lowered) == 4
        patch.setattr(module, "files", lambda left_out: None)
        kernels(tmp_path)
        assert len(lowered) == 6


def test_files_that_change_are_another_warpsmith(tmp_path: Path) -> None:
    (tmp_path / "room" / "__pycache__").mkdir(parents=True)
    (tmp_path / "a.py").write_text("")

    def lines() -> list[str]:
        return sorted(module._lines(tmp_path, frozenset({"__pycache__"})))

    before = lines()
    (tmp_path / "room" / "__pycache__" / "a.pyc").write_text("")
    assert lines() == before
    (tmp_path / "room" / "timings.json").write_text("{}")
    added = lines()
    os.utime(tmp_path / "a.py", (1, 1))
    assert len({tuple(before), tuple(added), tuple(lines())}) == 3


def test_different_values_have_different_texts() -> None:
    index, n = DataType.Index, Symbol("n")
    values = [
        None, "None", True, "True", 1, 1.0, "1", 0.0, -0.0, (), ((),), (1, 2), ("1,2",), ("1", "2"),
        frozenset((1, 2)), {1: 2}, index, "index", n, "n", Symbol("n", low=1), Symbol("n", low=2),
        Symbol("n", extent=n), Symbol("n", DataType.Int), Const(1), Const(1.0), Const(True),
        integers.add(n, 1), integers.mul(n, 2), H200, Foreign,
    ]  # fmt: skip
    texts = [text_of(value, {}) for value in values[:-1]]
    assert len(set(texts)) == len(texts)
    with pytest.raises(InternalError, match="not frozen"):
        text_of(Foreign(os.mkdir), {})
    assert text_of({2: 3, 1: 2}, {}) == text_of({1: 2, 2: 3}, {})


def names() -> list[str]:
    """Of the parts of the program, with another number for each tensor in the second one."""
    found = []
    for before in (0, 1):
        fusion = warpsmith.FusionDefinition()
        with fusion as fd:
            for _ in range(before):
                fd.ops.neg(fd.define_tensor([1], True))
            x = fd.define_tensor([-1, -1], True)
            fd.add_output(fd.ops.sum(fd.ops.exp(x), [1]))
        (planned,) = plan(fusion.fusion, scheduled=False, target=H200)
        found.append(name_of(H200, cause(planned.segment)))
    return found


def test_names_are_those_of_every_process_and_tell_tensors_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = names()
    assert len(set(here)) == 2
    program = "from tests.engine.test_emitted import names; print(*names())"
    told = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.split() == here


def test_a_kernel_from_the_disk_needs_nothing_that_makes_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spilling = replace(UNCOMPILED, spill_bytes=8)
    monkeypatch.setattr(cache, "compile_source", lambda source: spilling)
    first = kernels(tmp_path)
    for maker in ("emission", "proofs", "budgets"):
        monkeypatch.setitem(sys.modules, f"warpsmith.engine.{maker}", None)
    assert kernels(tmp_path) == first
    with pytest.raises(ImportError):
        kernels(tmp_path / "other")


def test_a_directory_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(RuntimeWarning, match="cannot keep compiled kernels") as said:
        kernels(tmp_path / "file" / "cache")
    assert len(said) == 1
    assert EmittedCache(tmp_path / "file", 1 << 20).load("name") is None


def test_a_chip_of_a_known_model_is_told_by_what_differs_of_these() -> None:
    assert module._target(replace(H200, sm_count=131)).startswith("('h200',131,")


def test_targets_that_differ_in_a_number_have_other_kernels() -> None:
    rates = replace(H200.rates, memory=H200.rates.memory / 2)
    others = replace(H200, sm_count=100), replace(H200, name="mine"), replace(H200, rates=rates)
    assert len({name_of(target, "cause") for target in (H200, *others)}) == 4
