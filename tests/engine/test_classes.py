"""Sizes of one class have one kernel, and `explain` lists the classes."""

import gc
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import warpsmith
from tests.support.binaries import UNCOMPILED
from warpsmith import ops
from warpsmith.engine import plan
from warpsmith.engine.classes import SizeClass
from warpsmith.engine.executable import Executable
from warpsmith.frontends.definition import FusionDefinition
from warpsmith.ir.dtypes import DataType
from warpsmith.knobs import Knobs, scope
from warpsmith.runtime import cache
from warpsmith.runtime.kept import cache_info
from warpsmith.runtime.source import Binary, Source

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def norm(x: Any, weight: Any) -> Any:
    return x * ops.rsqrt(ops.mean(x * x, [1], keepdim=True) + 1e-5) * weight


PROGRAMS: dict[str, tuple[Callable[..., Any], int]] = {
    "pointwise": (lambda x, y: x * 2 + y, 2),
    "norm": (norm, 2),
    "rows": (lambda x: ops.sum(x, [1]), 1),
    "columns": (lambda x: ops.sum(x, [0]), 1),
}
"""Programs of a matrix, and some of a row, with how many inputs they have."""


class Planned:
    """A program whose calls are planned and lowered, and by nobody compiled.

    Attributes:
        compiled: names of the kernels that were to be compiled, one each time.
    """

    def __init__(self, name: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.compiled: list[str] = []
        self._knobs = Knobs(cache_dir=folder, verify="off", always_compile=True)
        program, self._inputs = PROGRAMS[name]
        with FusionDefinition() as fd:
            tensors = [
                fd.define_tensor([-1] * rank, contiguity=True, dtype=DataType.BFloat16)
                for rank in (2, 1)[: self._inputs]
            ]
            fd.add_output(program(*tensors))
        self.executable = Executable(fd.fusion)
        patch.setattr(cache, "compile_source", self._compile)

    def _compile(self, source: Source) -> Binary:
        self.compiled.append(source.entry)
        return UNCOMPILED

    def __call__(self, rows: int, columns: int) -> None:
        shapes = ((rows, columns), (columns,))[: self._inputs]
        given = [np.empty(shape, BFLOAT16) for shape in shapes]  # nobody touches it
        self.executable.plan_for(given, self._knobs)

    def classes(self) -> tuple[SizeClass, ...]:
        call = self.executable.last_plan
        assert call is not None
        (planned,) = call.segments
        return self.executable.classes.of(planned)


def up_to(most: int, choice: random.Random) -> int:
    """A size from 1 to `most`, as often of one order of magnitude as of another."""
    return int(most ** choice.random())


SWEEPS = {
    # What docs/schedulers.md says of a new row count.
    "pointwise": 2,  # the 75 MB from which loads leave no copy in L1
    "norm": 6,  # 14 classes up to 24 rows of a multiprocessor, 124; 75 MB, which the L2 is to keep
    "rows": 2,  # 64 short rows of a multiprocessor
    "columns": 7 + 1,  # columns of 32, 72, 128, 144, 288, 512 and 65536 elements
}


@pytest.mark.few(2)
@pytest.mark.parametrize("columns", [4096, 1000, 129])
@pytest.mark.parametrize("name", SWEEPS)
def test_new_row_counts_compile_what_the_documentation_says(
    name: str, columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, choice = Planned(name, tmp_path, monkeypatch), random.Random(5)
    for _ in range(200):
        planned(up_to(30000, choice), columns)
    classes = planned.classes()
    assert len(planned.compiled) == len(set(planned.compiled)) == len(classes)
    assert len(classes) <= SWEEPS[name]
    assert [each.compiled for each in classes] == [1] * len(classes)
    assert sum(each.calls for each in classes) == 200


@pytest.mark.parametrize("name", ["pointwise", "rows", "columns"])
def test_no_class_is_compiled_twice(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, choice = Planned(name, tmp_path, monkeypatch), random.Random(6)
    met = [(up_to(4096, choice), up_to(4096, choice)) for _ in range(200)]
    for rows, columns in met:
        planned(rows, columns)
    first = list(planned.compiled)
    assert len(first) == len(set(first)) == len(planned.classes()) < 64
    for rows, columns in met:
        planned(rows, columns)
    assert planned.compiled == first
    if name == "pointwise":
        assert len(first) <= 6  # vectors of 8, 4, 2 and 1, and those that the end cuts short


def test_extents_of_0_and_1_are_no_classes_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in PROGRAMS:
        planned = Planned(name, tmp_path, monkeypatch)
        for rows in (7, 1, 0, 30):
            planned(rows, 256)
        assert len(planned.compiled) == 1, name


def test_a_class_knows_its_sizes_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = Planned("pointwise", tmp_path, monkeypatch)
    for rows, columns in ((3, 64), (5, 7), (200, 8), (9, 128)):
        planned(rows, columns)
    odd, even = planned.classes()
    assert dict(odd.params)["across"]
    assert not dict(even.params)["across"]
    assert (odd.calls, even.calls) == (1, 3)
    assert odd.sizes == {"T0_size0": (5, 5), "T0_size1": (7, 7), "T1_size0": (7, 7)}
    assert even.sizes == {"T0_size0": (3, 200), "T0_size1": (8, 128), "T1_size0": (8, 128)}
    assert "8 divides T0_size1" in even.facts
    assert any(fact.endswith("at multiples of 16 bytes") for fact in even.facts)
    assert odd.facts == ("T0, T1, T8 at multiples of 16 bytes", "32-bit indices")


def test_classes_of_all_programs_have_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (Planned(name, tmp_path, monkeypatch) for name in ("pointwise", "rows"))
    with scope(kept_plans=3):
        for program in (first, second):
            for columns in (5, 2, 64):  # vectors of 1, 2 and 8
                program(3, columns)
        assert len(first.classes()) + len(second.classes()) == cache_info()["classes"].entries <= 3
        assert second.classes()[-1].sizes["T0_size1"] == (64, 64)
        assert not first.classes(), "they were met longest ago"


def test_explain_lists_the_classes_of_all_calls() -> None:
    fused = warpsmith.fuse(lambda x: x * 2)
    with scope(device="sim"):
        for shape in ((3, 64), (5, 7), (1, 8)):
            fused(np.ones(shape, np.float32))
        text = fused.explain(np.ones((200, 8), np.float32))
        lone = fused.lower(np.ones((200, 8), np.float32)).compile().explain()
    lines = [line.strip() for line in text.splitlines()]
    at = lines.index("classes     2 of sizes so far")
    assert lines[at + 1 : at + 9] == [
        "class 1   planned once, compiled once",
        "sizes     T0_size0 5, T0_size1 7",
        "since     T0, T1 at multiples of 16 bytes, 32-bit indices",
        "chosen    exact=False",
        "class 2   planned 3 times, compiled once, this call's",
        "sizes     T0_size0 1 to 200, T0_size1 8 to 64",
        "since     4 divides mul(T0_size0, T0_size1), T0, T1 at multiples of 16 bytes, "
        "32-bit indices",
        "chosen    exact=True",
    ]
    assert "classes     1 of sizes so far" in lone, "its kernels are its own"


def test_a_kernel_that_was_let_go_counts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = Planned("pointwise", tmp_path, monkeypatch)
    planned(3, 64)
    call = planned.executable.last_plan
    assert call is not None
    call.segments[0].kernels.entries.clear()
    call.segments[0].launches.entries.clear()
    del call
    gc.collect()
    planned(5, 64)
    (only,) = planned.classes()
    assert (only.calls, only.compiled) == (2, 2)
    assert len(planned.compiled) == 2


def test_64_bit_indices_are_a_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = Planned("rows", tmp_path, monkeypatch)
    planned(3, 64)
    monkeypatch.setattr(plan, "INDEX_LIMIT", 1000)
    planned(100, 64)
    narrow, wide = planned.classes()
    assert "32-bit indices" in narrow.facts
    assert "64-bit indices" in wide.facts
