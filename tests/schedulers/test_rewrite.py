"""Algebra before scheduling: quotients that are rounded to 16 bits anyway."""

from __future__ import annotations

import numpy as np
import pytest

import warpsmith
from tests.support.program import Program
from warpsmith import knobs, ops
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Pointwise
from warpsmith.ir.tensor import TensorView
from warpsmith.runtime import arrays
from warpsmith.schedulers.rewrite import rewrite

FLOAT, HALF = DataType.Float, DataType.Half


def quotients(p: Program) -> list[str]:
    rewrite(p.fusion)
    names = [op.op for op in p.fusion.operations if isinstance(op, Pointwise)]
    return [name for name in names if name.startswith("div")]


def test_a_quotient_that_is_rounded_to_16_bits_need_not_be_exact() -> None:
    p = Program()
    ratio = p.op("div", p.input(FLOAT, (None,)), p.input(FLOAT, (None,)))
    p.output(p.cast(ratio, HALF), p.cast(ratio, DataType.BFloat16))
    assert quotients(p) == ["divide_full"]


@pytest.mark.parametrize("dtype", [FLOAT, DataType.Double])
def test_one_that_is_used_otherwise_stays_exact(dtype: DataType) -> None:
    p = Program()
    ratio = p.op("div", p.input(dtype, (None,)), p.input(dtype, (None,)))
    p.output(p.cast(ratio, HALF), p.op("neg", ratio))
    assert quotients(p) == ["div"]


def test_one_that_is_a_result_stays_exact() -> None:
    p = Program()
    ratio = p.op("div", p.input(FLOAT, (None,)), p.input(FLOAT, (None,)))
    p.output(p.cast(ratio, HALF), ratio)
    assert quotients(p) == ["div"]


def test_rounded_quotients_of_extremes_are_right() -> None:
    extremes = [0.0, 1e-45, 1e-40, 1e-30, 1.0, 3.0, 1e30, 3e38, np.inf, -np.inf, np.nan]
    a, b = (grid.ravel().astype(np.float32) for grid in np.meshgrid(extremes, extremes))

    @warpsmith.fuse
    def ratio(a: object, b: object) -> object:
        return ops.cast(ops.div(a, b), DataType.BFloat16)

    with knobs.scope(device="sim"):
        found = arrays.to_numpy(ratio(a, b)).astype(np.float64)
    with np.errstate(all="ignore"):
        exact = (a.astype(np.float64) / b.astype(np.float64)).astype(np.float32)
    expected = exact.astype(arrays.NUMPY_DTYPES["bfloat16"]).astype(np.float64)
    np.testing.assert_allclose(found, expected, rtol=2.0**-7, atol=1.2e-38, equal_nan=True)


def exponentials(p: Program) -> list[str]:
    rewrite(p.fusion)
    names = [op.op for op in p.fusion.operations if isinstance(op, Pointwise)]
    return [name for name in names if name.startswith("exp")]


def exponential_and_sum(p: Program) -> tuple[TensorView, TensorView]:
    """An exponential, and its sum along rows."""
    e = p.op("exp", p.input(FLOAT, (None, None)))
    return e, p.reduce("sum", e, (1,))


def test_an_exponential_whose_sum_is_rounded_to_16_bits_need_not_be_exact() -> None:
    p = Program()
    e, total = exponential_and_sum(p)
    p.output(p.cast(e, HALF), p.cast(p.op("log", total), DataType.BFloat16))
    assert exponentials(p) == ["exp_near"]


def test_one_of_which_a_float_result_is_made_stays_exact() -> None:
    p = Program()
    e, total = exponential_and_sum(p)
    p.output(p.cast(e, HALF), p.op("log", total))
    assert exponentials(p) == ["exp"]


def test_one_beside_no_reduction_stays_exact() -> None:
    p = Program()
    p.output(p.cast(p.op("exp", p.input(FLOAT, (None,))), HALF))
    assert exponentials(p) == ["exp"]


def test_rounded_exponentials_are_right_wherever_they_are_normal() -> None:
    special = [0.0, -0.0, 1e-30, -1e-30, 88.7, 89.0, -87.3, -1e30, 3e38, np.inf, -np.inf, np.nan]
    x = np.array([*special, *np.linspace(-87, 88, 500)], np.float32)

    @warpsmith.fuse
    def exponential(x: object) -> object:
        e = ops.exp(x)
        return ops.cast(e, DataType.BFloat16), ops.cast(ops.sum(e, [0]), DataType.BFloat16)

    with knobs.scope(device="sim"):
        found = arrays.to_numpy(exponential(x)[0]).astype(np.float64)
        assert "ws_exp_near" in exponential.lower(x).compile().kernels[0].asm["cuda"]
    with np.errstate(all="ignore"):
        exact = np.exp(x.astype(np.float64)).astype(np.float32)
    expected = exact.astype(arrays.NUMPY_DTYPES["bfloat16"]).astype(np.float64)
    np.testing.assert_allclose(found, expected, rtol=2.0**-7, atol=1.2e-38, equal_nan=True)
