"""The kernels of a call that has none yet are compiled at the same time."""

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import warpsmith
from bench.norm_backward import layer_norm_bwd
from tests.support.binaries import UNCOMPILED
from warpsmith import knobs, ops
from warpsmith.engine import emission
from warpsmith.errors import CompileError
from warpsmith.runtime import cache
from warpsmith.runtime.source import Binary, Source


def gradient(x: Any) -> Any:
    """Rows and sums of columns: two kernels."""
    scaled = x * ops.rsqrt(ops.mean(x * x, [1], keepdim=True))
    return scaled, ops.sum(scaled, [0])


def test_both_compile_before_either_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2, timeout=60)
    compiled = cache.compile_source
    names = set()

    def together(source: Source) -> Binary:
        both.wait()
        names.add(source.entry)
        return compiled(source)

    monkeypatch.setattr(cache, "compile_source", together)
    x = np.random.default_rng(0).standard_normal((40, 256)).astype(np.float32)
    fused = warpsmith.fuse(gradient)
    with knobs.scope(device="sim", always_compile=True):
        rows, sums = (np.asarray(result) for result in fused(x))
    assert len(names) == 2
    exact = x / np.sqrt((x.astype(np.float64) ** 2).mean(1, keepdims=True))
    np.testing.assert_allclose(rows, exact, 1e-5, 1e-6)
    np.testing.assert_allclose(sums, exact.sum(0), 1e-4, 1e-4)


def test_the_second_is_lowered_while_nvrtc_has_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []
    both = threading.Barrier(2, timeout=60)

    def noted(what: str, do: Any) -> Any:
        def doing(*arguments: Any, **named: Any) -> Any:
            happened.append(what)
            time.sleep(0.02)  # another thread would come by
            return do(*arguments, **named)

        return doing

    def compiling(source: Source) -> Binary:
        both.wait()
        return UNCOMPILED

    monkeypatch.setattr(emission, "lower", noted("lower", emission.lower))
    monkeypatch.setattr(emission, "printed", noted("print", emission.printed))
    monkeypatch.setattr(cache, "compile_source", compiling)
    with knobs.scope(cache_dir=tmp_path):
        warpsmith.fuse(gradient).lower(np.ones((40, 256), np.float32)).compile()
    assert happened == ["lower", "print", "lower", "print"]


def test_what_one_of_them_refuses_is_raised_and_the_next_call_compiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled = cache.compile_source

    def refused(source: Source) -> Binary:
        if "reduction" in source.entry:
            raise CompileError("no such luck")
        return compiled(source)

    x = np.ones((40, 256), np.float32)
    fused = warpsmith.fuse(gradient)
    with knobs.scope(device="sim", always_compile=True):
        with monkeypatch.context() as patch:
            patch.setattr(cache, "compile_source", refused)
            with pytest.raises(CompileError, match="no such luck"):
                fused(x)
        np.testing.assert_allclose(np.asarray(fused(x)[0]), np.ones_like(x), 1e-6)


def test_the_scope_of_the_caller_holds_in_all_of_them(tmp_path: Path) -> None:
    with knobs.scope(cache_dir=tmp_path, verify="off"):
        made = warpsmith.fuse(gradient).lower(np.ones((40, 256), np.float32)).compile()
    assert len(list(tmp_path.glob("*.cubin"))) == len(made.kernels) == 2


@pytest.mark.parametrize(("spilled", "taken"), [((0,), 0), ((8, 0), 1), ((4, 8), 0)])
def test_what_is_likely_to_spill_divides_and_multiplies_if_that_spills(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spilled: Sequence[int], taken: int
) -> None:
    """The first of a norm's two kernels."""
    problem = layer_norm_bwd(8192, 4096, "bfloat16")
    variants: list[Source] = []

    def compiling(source: Source) -> Binary:
        if "inner_outer" not in source.entry:
            return UNCOMPILED
        variants.append(source)
        return replace(UNCOMPILED, spill_bytes=spilled[len(variants) - 1])

    monkeypatch.setattr(cache, "compile_source", compiling)
    kinds = {"float": np.float32, "bfloat16": ml_dtypes.bfloat16}
    typed = zip(problem.shapes, problem.dtypes, strict=True)
    inputs = [np.empty(shape, kinds[dtype]) for shape, dtype in typed]
    with knobs.scope(cache_dir=tmp_path, target="h200"):
        rows, _ = warpsmith.fuse(problem.fused).lower(*inputs).compile().kernels
    assert rows.name == variants[taken].entry
    divisions = [source.text.count(" / ((float)") for source in variants]
    assert len(divisions) == len(spilled)
    assert divisions == sorted(divisions, reverse=True)
    assert divisions[0] > 1
