"""Batch norm in training: running statistics in place, inference, sizes of 0 and 1, registers."""

from typing import Any

import numpy as np
import pytest

import warpsmith
from bench import batch_norm
from bench.problem import Problem
from warpsmith import FusionDefinition, knobs, ops
from warpsmith.ir.dtypes import DataType

EPSILON, MOMENTUM = 1e-5, 0.1
SHAPES = [(3, 4, 5, 8), (2, 3, 1, 1), (1, 1, 7, 3), (5, 17, 2, 2)]


def training_step(x: np.ndarray, axis: int) -> FusionDefinition:
    """The result; the running mean and variance are moved in place."""
    over = [d != axis for d in range(4)]
    dims = [d for d in range(4) if d != axis]
    count = x.size // x.shape[axis]
    with FusionDefinition() as fd:
        given = fd.from_pytorch(x)
        running = [fd.from_pytorch(np.zeros(x.shape[axis], np.float32)) for _ in range(2)]
        variance, mean = fd.ops.var_mean(given, dims=dims, correction=0, keepdim=False)
        scale = fd.ops.rsqrt(fd.ops.add(variance, fd.define_scalar(EPSILON)))
        spread = [fd.ops.broadcast(t, is_broadcast_dim=over) for t in (mean, scale)]
        fd.add_output(fd.ops.mul(fd.ops.sub(given, spread[0]), spread[1]))
        unbiased = fd.ops.mul(variance, fd.define_scalar(count / max(count - 1, 1)))
        for old, new in zip(running, (mean, unbiased), strict=True):
            kept = fd.ops.mul(old, fd.define_scalar(1 - MOMENTUM))
            moved = fd.ops.add(kept, fd.ops.mul(new, fd.define_scalar(MOMENTUM)))
            fd.add_output(moved, alias_input=old)
    return fd


@pytest.mark.few(4)
@pytest.mark.parametrize("axis", [1, 3])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_running_statistics_move_in_place(shape: tuple[int, ...], axis: int) -> None:
    rng = np.random.default_rng(shape[1])
    x = (rng.standard_normal(shape) + 2).astype(np.float32)
    mean = rng.standard_normal(shape[axis]).astype(np.float32)
    variance = rng.random(shape[axis]).astype(np.float32)
    before = mean.astype(np.float64), variance.astype(np.float64)
    with knobs.scope(device="sim"):
        (found,) = training_step(x, axis).execute([x, mean, variance])
    wide, dims = x.astype(np.float64), tuple(d for d in range(4) if d != axis)
    exact = wide.mean(dims), wide.var(dims)
    count = x.size // shape[axis]
    unbiased = exact[1] * count / max(count - 1, 1)
    for got, old, new in zip((mean, variance), before, (exact[0], unbiased), strict=True):
        np.testing.assert_allclose(got, 0.9 * old + 0.1 * new, rtol=1e-5, atol=1e-6)
    at = [None if d != axis else slice(None) for d in range(4)]
    normal = (wide - exact[0][*at]) / np.sqrt(exact[1][*at] + EPSILON)
    np.testing.assert_allclose(np.asarray(found), normal, rtol=1e-4, atol=1e-5)


def inference(x: Any, mean: Any, variance: Any, weight: Any) -> Any:
    over = [True, False, True, True]
    scale = weight * ops.rsqrt(ops.add(variance, EPSILON))
    centred = x.to(DataType.Float) - ops.broadcast(mean, over)
    return (centred * ops.broadcast(scale, over)).to(x.dtype)


def test_inference_is_one_pointwise_kernel() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    mean, variance, weight = (rng.random(3).astype(np.float32) for _ in range(3))
    fused = warpsmith.fuse(inference)
    with knobs.scope(device="sim"):
        found = np.asarray(fused(x, mean, variance, weight))
        words = fused.lower(x, mean, variance, weight).compile().explain()
    assert "1 kernel\n" in words
    assert "scheduler   pointwise" in words
    wide = [a.astype(np.float64).reshape(-1, 1, 1) for a in (mean, variance, weight)]
    expected = (x - wide[0]) / np.sqrt(wide[1] + EPSILON) * wide[2]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.few(1)
@pytest.mark.parametrize("axis", [1, 3])
@pytest.mark.parametrize("shape", [(0, 3, 2, 4), (2, 0, 2, 4), (2, 3, 2, 0)], ids=str)
def test_nothing_to_normalize(shape: tuple[int, ...], axis: int) -> None:
    x = np.zeros(shape, np.float32)
    statistics = [np.ones(shape[axis], np.float32) for _ in range(2)]
    with knobs.scope(device="sim"):
        (found,) = training_step(np.zeros((2, 3, 2, 4), np.float32), axis).execute([x, *statistics])
    assert np.asarray(found).shape == shape


@pytest.mark.parametrize("axis", [1, 3])
def test_any_order_of_warps_is_clean(axis: int) -> None:
    x = np.random.default_rng(1).standard_normal((8, 16, 9, 16)).astype(np.float32)
    statistics = [np.ones(16, np.float32) for _ in range(2)]
    found = warpsmith.verify(training_step(x, axis), [x, *statistics], schedules=4)
    assert found.verdict == "clean", found


# --- registers at the bench's sizes --------------------------------------------------------------

QUICK = ("64x2048x7x7", "4096x4096")


def sized() -> list[Any]:
    return [
        pytest.param(p, id=p.title, marks=() if p.title.split()[1] in QUICK else pytest.mark.slow)
        for p in batch_norm.problems(quick=False)
        if p.dtype == "bfloat16" or p.title.split()[1] == QUICK[-1]
    ]


@pytest.mark.few(2)
@pytest.mark.parametrize("problem", sized())
def test_hardly_anything_spills(problem: Problem) -> None:
    """Ten registers, stored and loaded once, are 40 bytes: one backward of 14x14, whose loads have
    the L2's policy in two registers."""
    torch = pytest.importorskip("torch")

    kinds = {"bfloat16": torch.bfloat16, "float": torch.float32}
    inputs = [
        torch.empty(shape, dtype=kinds["float" if place in problem.in_float else problem.dtype])
        for place, shape in enumerate(problem.shapes)
    ]
    made = warpsmith.fuse(problem.fused).lower(*inputs).compile()
    assert max(kernel.n_spills for kernel in made.kernels) <= 40
