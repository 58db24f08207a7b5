"""Kernels without machine code as it is meant: a call takes another plan, and says so."""

import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from warpsmith import fuse, knobs, ops
from warpsmith.engine import compiled as compiled_module
from warpsmith.engine.executable import Executable
from warpsmith.engine.planned import MOST_REFUSED
from warpsmith.errors import CompileError, KernelRefusal, PlanWarning
from warpsmith.runtime import cache as cache_module
from warpsmith.runtime.nvrtc import check_remarks
from warpsmith.runtime.source import Binary, Source

SERIALIZED = "ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async is serialized"

X, W = (np.arange(n * 64).reshape(n, 64).astype(np.float16) % 5 for n in (72, 40))

Seen = list[str]


def product() -> Executable:
    return Executable(fuse(lambda x, w: ops.linear(x, w)).lower(X, W).fusion)


def is_right(program: Executable) -> bool:
    with knobs.scope(device="sim"):
        (result,) = program.run([X, W])
    return np.array_equal(result, X.astype(np.float32) @ W.T.astype(np.float32))


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Seen]:
    """Has ptxas serialize the first kernels on tensor cores, each time; gives all that were met."""

    def first(most: int) -> Seen:
        seen: Seen = []

        def remarks(log: str, entry: str) -> None:
            if entry.startswith("matmul_") and not entry.startswith("matmul_by"):
                if entry not in seen:
                    seen.append(entry)
                check_remarks(SERIALIZED if seen.index(entry) < most else log, entry)

        monkeypatch.setattr(compiled_module, "check_remarks", remarks)
        return seen

    return first


def test_the_next_candidate_is_taken_and_the_first_not_asked_again(
    refused: Callable[[int], Seen],
) -> None:
    seen = refused(2)
    program = product()
    with pytest.warns(PlanWarning, match=r"kernel of matmul.* left out.*WS0511.*C7512") as told:
        assert is_right(program)
    assert len(told) == 2
    assert len(seen) == 3
    launched = program.plan_for([X, W]).launches
    assert [launch.compiled.name for launch in launched] == seen[2:]
    with warnings.catch_warnings():
        warnings.simplefilter("error", PlanWarning)
        program.plan_for([X[:70], W])  # another call, of the same kernel


def test_where_none_has_code_another_scheduler_has_the_part(
    refused: Callable[[int], Seen],
) -> None:
    seen = refused(1000)
    program = product()
    with pytest.warns(PlanWarning, match="matmul") as told:
        assert is_right(program)
    with pytest.warns(PlanWarning, match="matmul takes a part"):
        (launch,) = program.plan_for([X, W]).launches
    words = "matmul takes a part of the program, but its schedule fails: [WS0511] ptxas says"
    assert [words in str(each.message) for each in told] == [False] * (MOST_REFUSED - 1) + [True]
    assert len(seen) == MOST_REFUSED
    assert launch.compiled.name.startswith("matmul_by_threads_")


def test_too_few_registers_for_an_instruction_are_such_a_refusal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of the first kernel, whose blocks have too many threads, ptxas makes nothing: neither as it
    is launched nor with registers by role.
    """
    real = cache_module.compile_source
    met: dict[str, None] = {}

    def starved(source: Source) -> Binary:
        if source.entry != "alone":
            met[source.entry] = None
        if source.entry not in list(met)[:2]:
            return real(source)
        bound = re.compile(r"__launch_bounds__\([^)]*\)")
        return real(replace(source, text=bound.sub("__launch_bounds__(1024, 1)", source.text)))

    monkeypatch.setattr(cache_module, "compile_source", starved)
    large = np.empty((4096, 4096), np.float16)
    with knobs.scope(device="sim", cache_dir=tmp_path), pytest.warns(PlanWarning, match="C7602"):
        (launch,) = product().plan_for([large, large]).launches
    assert launch.compiled.name == list(met)[-1] not in list(met)[:2]


def test_what_keeps_nvrtc_itself_from_working_is_said_as_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def missing(source: Source) -> Binary:
        raise CompileError("NVRTC cannot be loaded")

    monkeypatch.setattr(cache_module, "compile_source", missing)
    with knobs.scope(cache_dir=tmp_path), pytest.raises(CompileError, match="cannot be loaded"):
        is_right(product())


def test_text_that_its_user_edited_is_refused_as_such(tmp_path: Path) -> None:
    (launch,) = product().plan_for([X, W]).launches
    (tmp_path / f"{launch.compiled.name}.cu").write_text("nonsense")
    with knobs.scope(override_dir=tmp_path), pytest.raises(KernelRefusal, match="nonsense"):
        is_right(product())
