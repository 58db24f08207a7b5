"""What is one for a row, though not for all rows, as a channel's weight of an instance norm."""

from collections.abc import Callable

import numpy as np
import pytest

import warpsmith
from bench.images import Images
from bench.instance_norm import instance_norm, instance_norm_bwd
from bench.problem import Problem
from bench.row_shapes import plan
from warpsmith import knobs
from warpsmith.schedulers.rows.params import RowParams


@pytest.mark.parametrize("make", [instance_norm, instance_norm_bwd])
def test_it_is_loaded_once_for_all_of_a_row(make: Callable[[Images, str], Problem]) -> None:
    problem = make(Images(50, 32, 61, False), "bfloat16")
    launch = plan(problem).launches[0]
    assert isinstance(launch.params, RowParams)
    assert str(launch.compiled.asm["sass"]).count("LDG") <= 8


@pytest.mark.parametrize("turns", [1, 2])
def test_it_is_right(turns: int) -> None:
    shape = (2 * turns, 64, 13, 13)
    rng = np.random.default_rng(turns)
    x = rng.standard_normal(shape).astype(np.float32)
    weight, bias = (rng.standard_normal(shape[1]).astype(np.float32) for _ in range(2))
    problem = instance_norm(Images(shape[0], shape[1], 13, False), "float")
    fused = warpsmith.fuse(problem.fused, warp_specialize=True)
    made = fused.lower(x, weight, bias).compile()
    assert "ws_bulk_load" in str(made.kernels[0].asm["cuda"])
    assert made.verify().verdict == "clean"
    with knobs.scope(device="sim"):
        found = np.asarray(fused(x, weight, bias))
    wide = x.astype(np.float64)
    mean, variance = wide.mean((2, 3), keepdims=True), wide.var((2, 3), keepdims=True)
    normal = (wide - mean) / np.sqrt(variance + 1e-5)
    expected = normal * weight[:, None, None] + bias[:, None, None]
    np.testing.assert_allclose(found, expected, 1e-4, 1e-5)
