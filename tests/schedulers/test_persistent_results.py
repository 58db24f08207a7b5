"""Rows in registers, from the user's words to results on the simulator."""

from typing import Any

import numpy as np
import pytest

import warpsmith
from warpsmith import knobs, ops
from warpsmith.ir.dtypes import DataType
from warpsmith.runtime import arrays

FLOAT = DataType.Float


def normalized(x: Any, weight: Any, bias: Any) -> Any:
    """LayerNorm in the words of users, with its statistics."""
    wide = x.to(FLOAT)
    variance, mean = ops.var_mean(wide, [-1], 0, True)
    scale = ops.rsqrt(ops.add(variance, 1e-5))
    return ((wide - mean) * scale * weight + bias).to(x.dtype), mean, scale


@pytest.mark.few(2)
@pytest.mark.parametrize("shape", [(1, 64), (3, 4, 200), (5, 1001), (2, 4096)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_through_the_door_on_the_simulator(dtype: str, shape: tuple[int, ...]) -> None:
    kind = arrays.NUMPY_DTYPES["bfloat16"] if dtype == "bfloat16" else np.dtype(dtype)
    rng = np.random.default_rng(shape[-1])
    x = (rng.standard_normal(shape) * 3 + 100).astype(kind)
    weight, bias = (rng.standard_normal(shape[-1:]).astype(kind) for _ in range(2))
    fused = warpsmith.fuse(normalized)
    with knobs.scope(device="sim"):
        found = [np.asarray(r).astype(np.float64) for r in fused(x, weight, bias)]
    a, w, b = (t.astype(np.float64) for t in (x, weight, bias))
    mean = a.mean(-1, keepdims=True)
    scale = 1 / np.sqrt(a.var(-1, keepdims=True) + 1e-5)
    expected = (a - mean) * scale * w + b
    assert "1 kernel\n" in fused.lower(x, weight, bias).compile().explain()
    np.testing.assert_allclose(found[1], mean, rtol=1e-6)
    np.testing.assert_allclose(found[2], scale, rtol=1e-5)
    step = 2.0**-8 if dtype == "bfloat16" else 1e-4
    np.testing.assert_allclose(found[0], expected, rtol=step, atol=1e-4)


def test_a_variance_beside_a_large_mean_keeps_its_digits() -> None:
    x = (np.random.default_rng(1).standard_normal((4, 2048)) + 1e4).astype(np.float32)
    with knobs.scope(device="sim"):
        _, mean, scale = warpsmith.fuse(normalized)(x, np.ones(2048, np.float32), x[0] * 0)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean(-1, keepdims=True), rtol=2e-7)
    exact = 1 / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(scale, exact, rtol=2e-6)


def test_any_order_of_warps_is_clean() -> None:
    x = np.random.default_rng(2).standard_normal((3, 3000)).astype(np.float32)
    found = warpsmith.verify(warpsmith.fuse(normalized), [x, x[0], x[1]], schedules=4)
    assert found.verdict == "clean", found
