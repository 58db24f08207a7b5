"""What is one for a row, though not for all rows, as a channel's weight of an instance norm."""

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch

import warpsmith
from bench.images import Images
from bench.instance_norm import instance_norm, instance_norm_bwd
from bench.norms import EPSILON, layer_norm, rms_norm
from bench.problem import Problem
from bench.row_shapes import considered, forced, plan
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


COLUMNS = 6152


@pytest.mark.parametrize(("rows", "together"), [(600, True), (20000, False)])
def test_few_rows_wait_once_for_what_all_share(rows: int, together: bool) -> None:
    """All accesses of a thread to a weight stand before the first use, or each before its own."""
    launch = plan(rms_norm(rows, COLUMNS, "bfloat16")).launches[0]
    assert isinstance(launch.params, RowParams)
    assert launch.params.reload_weights
    assert launch.params.together is together
    text = launch.compiled.cuda[launch.compiled.cuda.index("__global__") :]
    kept = re.search(r", T1 \+ .*\n.*\n.* T\d+\[i\d+ \* 8 \+ k\] = v\[k\];", text)
    assert (kept is not None) is together


def test_two_weights_are_loaded_where_they_are_used() -> None:
    shapes = considered(layer_norm(600, COLUMNS, "bfloat16"), 20).others
    assert any(shape.params.reload_weights for shape in shapes)
    assert not any(shape.params.together for shape in shapes)


@pytest.mark.few(2)
@pytest.mark.parametrize("columns", [3000, 1312, 9096])
def test_rows_that_wait_once_are_right(columns: int) -> None:
    problem = rms_norm(900, columns, "bfloat16")
    shapes = considered(problem, 20).others
    params = next(shape.params for shape in shapes if shape.params.together)
    x, weight = torch.randn(5, columns).bfloat16(), torch.randn(columns).bfloat16()
    fused = warpsmith.fuse(problem.fused)
    with knobs.scope(device="sim"), forced(params):
        assert fused.lower(x, weight).compile().verify().verdict == "clean"
        found = fused(x, weight)
    exact = torch.nn.functional.rms_norm(x.double(), (columns,), weight.double(), EPSILON)
    torch.testing.assert_close(found.double(), exact, rtol=1e-2, atol=1e-2)
