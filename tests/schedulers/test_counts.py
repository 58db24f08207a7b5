"""Sums over a number that all elements share, and what kernels compute in place of the quotient."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import warpsmith
from bench.norm_backward import layer_norm_bwd
from tests.support.binaries import UNCOMPILED
from tests.support.program import Program
from warpsmith import FusionDefinition, knobs, ops
from warpsmith.engine import emission, proofs
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Pointwise
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import TensorView
from warpsmith.runtime import cache
from warpsmith.runtime.source import Binary, Source
from warpsmith.schedulers import candidate
from warpsmith.schedulers.counts import multiply_by_reciprocals
from warpsmith.schedulers.rows import needs

FLOAT = DataType.Float


def over(
    p: Program, total: TensorView, count: TensorView | float, *, near: bool = False
) -> list[str]:
    """What becomes of `total / count`."""
    p.output(p.op("div", total, count))
    return pointwise(p.fusion, near=near)


def pointwise(fusion: Fusion, *, near: bool = False) -> list[str]:
    multiply_by_reciprocals(fusion, near=near)
    return [op.op for op in fusion.operations if isinstance(op, Pointwise)]


@pytest.mark.parametrize("columns", [-1, 512])
def test_a_mean_multiplies_by_the_reciprocal_of_the_count(columns: int) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, columns], True, FLOAT)
        fd.add_output(fd.ops.mean(x, [1], keepdim=True))
    assert pointwise(fd.fusion) == ["mul"]


@pytest.mark.parametrize("near", [False, True])
def test_so_does_what_is_computed_of_sums_alone_where_near_is_enough(near: bool) -> None:
    p = Program()
    x = p.input(FLOAT, (None, None))
    total, squares = p.reduce("sum", x, (1,)), p.reduce("sum", p.op("mul", x, x), (1,))
    rest = p.op("sub", squares, p.op("mul", total, total))
    assert over(p, rest, 3.0, near=near) == ["mul", "mul", "sub", "mul" if near else "div"]
    p = Program()
    x, other = p.input(FLOAT, (None, None)), p.input(FLOAT, (None,))
    computed = p.op("add", p.reduce("sum", x, (1,)), other)
    assert over(p, computed, 3.0, near=near) == ["add", "div"]


def test_a_near_reciprocal_takes_no_call() -> None:
    """Of a size that a call says: a constant's is there."""
    for columns, wanted in ((-1, "divide_full"), (512, None)):
        with FusionDefinition() as fd:
            x = fd.define_tensor([-1, columns], True, FLOAT)
            fd.add_output(fd.ops.mean(x, [1], keepdim=True))
        multiply_by_reciprocals(fd.fusion, near=True)
        (product,) = (op for op in fd.fusion.operations if isinstance(op, Pointwise))
        assert product.op == "mul"
        assert getattr(product.inputs[1], "op", None) == wanted


def test_other_quotients_stay_exact() -> None:
    p = Program()
    assert over(p, p.reduce("sum", p.input(FLOAT, (None, None)), (1,)), 3.0) == ["mul"]
    p = Program()
    assert over(p, p.input(FLOAT, (None, None)), 3.0) == ["div"]
    p = Program()
    assert over(p, p.reduce("max", p.input(FLOAT, (None, None)), (1,)), 3.0) == ["div"]
    p = Program()
    x = p.input(FLOAT, (None, None))
    assert over(p, p.reduce("sum", x, (1,)), p.reduce("max", x, (1,))) == ["div"]


@pytest.mark.parametrize("count", [1e-39, 3e38, 1e300, 0.0])
def test_a_number_whose_reciprocal_lacks_digits_divides(count: float) -> None:
    p = Program()
    assert over(p, p.reduce("sum", p.input(FLOAT, (None, None)), (1,)), count) == ["div"]


def test_what_a_user_divides_by_may_have_no_reciprocal() -> None:
    """1e-39 is a float; its reciprocal is more than any."""

    def scaled(x: Any, by: Any) -> Any:
        scale = ops.div(ops.sum(x, [1], keepdim=True), by)
        return ops.mul(x, scale), ops.sum(ops.mul(x, scale), [0])

    x, by = np.full((4, 64), 2.0**-20, np.float32), 1e-39
    fused = warpsmith.fuse(scaled, warp_specialize=False)
    with knobs.scope(device="sim"):
        found = np.asarray(fused(x, by)[0])
    np.testing.assert_allclose(found, x.astype(float) * x.sum(1, keepdims=True) / by, 1e-5)


def centered(x: object) -> object:
    """Means of rows, rows less these, and sums of columns: blocks loop over rows."""
    average = ops.mean(x, [1], keepdim=True)
    return average, ops.sub(x, average), ops.sum(x, [0])


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [3, 64, 1000])
def test_means_are_right_whatever_their_elements(dtype: type, columns: int) -> None:
    x = np.random.default_rng(columns).standard_normal((6, columns)).astype(dtype)
    x[1, 0], x[2, 0], x[3] = np.inf, np.nan, np.finfo(dtype).max / 2 / columns
    x[4] = np.finfo(dtype).smallest_subnormal
    fused = warpsmith.fuse(centered, warp_specialize=False)
    one = "1.0f" if dtype is np.float32 else "1.0"
    assert f"({one} / " in fused.lower(x).compile().kernels[0].cuda
    with knobs.scope(device="sim"):
        found = np.asarray(fused(x)[0])
    expected = x.astype(np.longdouble).mean(1, keepdims=True)
    tiny = np.finfo(dtype).smallest_subnormal
    np.testing.assert_allclose(found, expected, 1e3 * np.finfo(dtype).eps, tiny)


def test_the_mean_of_nothing_is_no_number() -> None:
    with knobs.scope(device="sim"):
        found = np.asarray(warpsmith.fuse(centered)(np.zeros((3, 0), np.float32))[0])
    assert np.isnan(found).all()


def test_rows_alone_keep_the_quotient() -> None:
    """Other blocks run while one waits for it."""
    x = np.zeros((4096, 4096), np.float32)
    fused = warpsmith.fuse(lambda x: ops.sub(x, ops.mean(x, [1], keepdim=True)))
    assert "(1.0f / " not in fused.lower(x).compile().kernels[0].cuda


@pytest.mark.parametrize("roles", [True, False])
def test_roles_keep_the_quotient(roles: bool) -> None:
    """Without its call, ptxas keeps what they count in uniform registers, and is slower."""
    x = np.zeros((4096, 4096), np.float32)
    kernel = warpsmith.fuse(centered, warp_specialize=roles).lower(x).compile().kernels[0]
    text = kernel.cuda[kernel.cuda.index("__global__") :]
    assert "/ ((float)(" in text
    assert ("(1.0f / ((float)(" in text) is not roles


@pytest.mark.few(1)
@pytest.mark.parametrize(("columns", "quotient"), [(4096, False), (7168, True)])
def test_a_kernel_that_would_spill_keeps_it_too(
    columns: int, quotient: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What threads have of such rows needs nearly all registers, where shapes may."""
    monkeypatch.setattr(needs, "EASY_SHARE", 1.0)
    problem = layer_norm_bwd(8192, columns, "bfloat16")
    kinds = {"bfloat16": torch.bfloat16, "float": torch.float32}
    shapes = zip(problem.shapes, problem.dtypes, strict=True)
    inputs = [torch.empty(shape, dtype=kinds[dtype]) for shape, dtype in shapes]
    kernel = warpsmith.fuse(problem.fused).lower(*inputs).compile().kernels[0]
    assert kernel.n_spills == 0
    assert ("(1.0f / ((float)(" in kernel.cuda) is not quotient


def test_the_variant_that_divides_is_lowered_and_proved_with_the_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its text is that of the schedule without reciprocals."""
    seen: list[str] = []

    def spilling(source: Source) -> Binary:
        seen.append(source.text)
        pretended: Binary = replace(UNCOMPILED, spill_bytes=8)
        return pretended

    def noted(module: ModuleType, name: str) -> list[object]:
        calls, known = list[object](), getattr(module, name)

        def counted(*given: Any, **named: Any) -> Any:
            calls.append(given)
            return known(*given, **named)

        monkeypatch.setattr(module, name, counted)
        return calls

    def texts() -> list[str]:
        seen.clear()
        fused = warpsmith.fuse(centered, warp_specialize=False)
        fused.lower(np.zeros((4096, 4096), np.float32)).compile()
        return [text[text.index("__launch_bounds__") :] for text in seen if "inner_outer" in text]

    monkeypatch.setattr(cache, "compile_source", spilling)
    calls = noted(emission, "lower"), noted(proofs, "prove")
    with knobs.scope(always_compile=True, cache_dir=tmp_path):  # others would load what pretends
        multiplied, divided = texts()
        assert [len(each) for each in calls] == [2, 2], "one for each of two kernels"
        monkeypatch.setattr(candidate, "multiply_by_reciprocals", lambda _, near: None)
        assert divided == texts()[0] != multiplied
