"""Algebra before scheduling: quotients that are rounded to 16 bits anyway."""

from __future__ import annotations

import numpy as np
import pytest

import warpsmith
from tests.support.program import Program
from warpsmith import knobs, ops
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Pointwise
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
