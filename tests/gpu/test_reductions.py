"""Reductions over every pattern of dimensions, against float64."""

import pytest
import torch

from tests.gpu.support import assert_near, fused
from warpsmith import DataType, ops

CASES = (
    ((64, 96), [1]),
    ((64, 96), [0]),
    ((64, 96), [0, 1]),
    ((1, 1), [0, 1]),
    ((1, 1000), [1]),
    ((1000, 1), [0]),
    ((1001, 1003), [1]),
    ((1001, 1003), [0]),
    ((1001, 1003), [0, 1]),
    ((3, 100_003), [1]),
    ((100_003, 3), [0]),
    ((100_000, 8), [0]),
    ((100_000, 8), [1]),
    ((8, 16, 14, 14), [0, 2, 3]),
    ((8, 16, 14, 14), [1]),
    ((8, 16, 14, 14), [2, 3]),
    ((5, 6, 7), [1]),
    ((5, 6, 7), [0, 2]),
    ((33, 65, 130), [0, 1]),
    ((4096, 4096), [1]),
    ((4096, 4096), [0]),
    ((4096, 4096), [0, 1]),
)


def _terms(shape, dims):
    count = 1
    for dim in dims:
        count *= shape[dim]
    return count


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("shape", "dims"), CASES, ids=str)
def test_sum(shape, dims, dtype):
    x = torch.randn(shape, device="cuda").to(dtype) + 0.25
    (out,) = fused(lambda t: ops.sum(t, dims), x)
    assert_near(out, x.double().sum(dims), terms=_terms(shape, dims))


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize(("shape", "dims"), CASES[:16], ids=str)
def test_extremes(shape, dims, name):
    x = torch.randn(shape, device="cuda")
    (out,) = fused(lambda t: getattr(ops, name)(t, dims), x)
    assert torch.equal(out, getattr(torch, f"a{name}")(x, dims))


@pytest.mark.parametrize("name", ["sum", "max", "min", "prod"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.bool], ids=str)
def test_integers(name, dtype):
    x = torch.randint(0, 2, (130, 70), device="cuda").to(dtype)
    (out,) = fused(lambda t: getattr(ops, name)(t, [1]), x)
    wanted = {
        "sum": lambda: x.sum(1),
        "prod": lambda: x.prod(1),
        "max": lambda: x.amax(1),
        "min": lambda: x.amin(1),
    }[name]()
    assert out.dtype == wanted.dtype
    assert torch.equal(out, wanted)


def test_nan_wins_extremes():
    x = torch.randn(100, 300, device="cuda")
    x[3, 7] = float("nan")
    (out,) = fused(lambda t: ops.max(t, [1]), x)
    assert bool(out[3].isnan())
    assert int(out.isnan().sum()) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize(("shape", "dims"), [c for c in CASES if _terms(*c) > 1], ids=str)
def test_var_mean(shape, dims, dtype):
    x = torch.randn(shape, device="cuda").to(dtype) * 3 + 1
    var, mean = fused(lambda t: ops.var_mean(t, dims), x)
    off = (mean.double() - x.double().mean(dims)).abs()
    assert bool(
        (off <= (1e-6 if dtype is torch.float32 else 8e-3) * x.double().abs().mean(dims)).all()
    )
    wide = x.double().var(dims)
    slack = 2e-6 if dtype is torch.float32 else 1.6e-2
    # Rounding the inputs' distance to the mean costs in proportion to mean and deviation.
    size = wide + x.double().mean(dims) ** 2
    assert bool(((var.double() - wide).abs() <= slack * size + 1e-12).all())


def test_variance_far_from_zero():
    x = torch.randn(64, 100_000, device="cuda") + 1000
    var, _ = fused(lambda t: ops.var_mean(t, [1]), x)
    assert float((var.double() / x.double().var(1) - 1).abs().max()) < 1e-4


HARD_SHAPES = (
    ((64, 64), [1]),
    ((70, 1003), [1]),
    ((16, 32_768), [1]),
    ((3, 1 << 20), [1]),
    ((1 << 18, 16), [0]),
    ((100_003, 24), [0]),
    ((96, 4096), [0]),
    ((513, 4099), [0, 1]),
)


def hard(kind, shape, dims):
    """Data whose variance cancels; outliers are what each result meets first."""
    x = torch.randn(shape, device="cuda")
    first = [slice(0, 1) if dim in dims else slice(None) for dim in range(len(shape))]
    if kind == "far":
        return x + 1e4
    if kind == "outlier":
        x[tuple(first)] = 1e6
    elif kind == "all but one far":
        x += 1e4
        x[tuple(first)] = 0
    return x


@pytest.mark.parametrize(
    ("kind", "limit"), [("near", 1e-6), ("far", 1e-3), ("outlier", 4e-6), ("all but one far", 2e-5)]
)
@pytest.mark.parametrize(("shape", "dims"), HARD_SHAPES, ids=str)
def test_variance_of_what_cancels(shape, dims, kind, limit):
    x = hard(kind, shape, dims)
    var, mean = fused(lambda t: ops.var_mean(t, dims), x)
    wide, center = x.double().var(dims), x.double().mean(dims)
    assert float((var.double() / wide - 1).abs().max()) < limit
    off = (mean.double() - center).abs() / (wide.sqrt() + 1e-3 * center.abs())
    # At a mean of 1e4 a unit in the last place is 0.9e-4 of this: four of them.
    assert float(off.max()) < (1e-6 if kind in ("near", "outlier") else 3.6e-4)


@pytest.mark.parametrize(("shape", "dims"), HARD_SHAPES[:-1], ids=str)
def test_variance_of_special_values(shape, dims):
    kept = [slice(None) if dim in dims else None for dim in range(len(shape))]

    def result(number):
        """Of the values that the given result reduces."""
        return tuple(number if part is None else part for part in kept)

    x = torch.randn(shape, device="cuda")
    x[result(0)] = 5.5
    x[result(1)] *= 1e20  # its variance is beyond the type
    x[(2, 1) if dims == [1] else (1, 2)] = float("nan")
    var, mean = fused(lambda t: ops.var_mean(t, dims), x)
    assert float(var[0].abs()) < 1e-10
    assert float(mean[0]) == 5.5
    assert torch.isinf(var[1])
    assert bool(torch.isfinite(mean[1]))
    assert torch.isnan(var[2])
    assert torch.isnan(mean[2])
    assert bool(torch.isfinite(var[3:]).all())
    assert bool(torch.isfinite(mean[3:]).all())
    x[(2, 1) if dims == [1] else (1, 2)] = float("inf")
    var, _ = fused(lambda t: ops.var_mean(t, dims), x)
    assert bool(torch.isnan(var[2]))


@pytest.mark.parametrize("dims", [[0], [1]])
def test_variance_of_one_and_of_two(dims):
    one = torch.randn((40, 1) if dims == [1] else (1, 40), device="cuda")
    var, mean = fused(lambda t: ops.var_mean(t, dims), one)
    assert torch.equal(mean, one.squeeze())
    assert bool(var.isnan().all())
    two = torch.randn((40, 2) if dims == [1] else (2, 40), device="cuda")
    var, mean = fused(lambda t: ops.var_mean(t, dims), two)
    assert torch.allclose(mean, two.mean(dims), rtol=1e-6, atol=1e-6)
    assert torch.allclose(var, two.var(dims), rtol=1e-5)


def test_before_after_and_several_outputs():
    x = torch.randn(300, 520, device="cuda").bfloat16()
    w = torch.randn(520, device="cuda").bfloat16()

    def function(t, weight):
        product = ops.cast(t, DataType.Float) * ops.cast(weight, DataType.Float)
        total = ops.sum(product, [1])
        return ops.exp(total * 0.01), ops.max(product, [1]), product

    total, largest, product = fused(function, x, w)
    wide = x.double() * w.double()
    assert_near(total, torch.exp(wide.sum(1) * 0.01), ulps=64, terms=520)
    assert_near(largest, wide.amax(1))
    assert_near(product, wide)


@pytest.mark.parametrize("shape", [(64, 96), (1001, 1003), (512, 4096)], ids=str)
def test_softmax_and_norm(shape):
    x = torch.randn(shape, device="cuda")

    def softmax(t):
        shifted = ops.exp(t - ops.max(t, [1], True))
        return shifted / ops.sum(shifted, [1], True)

    (out,) = fused(softmax, x)
    assert_near(out, x.double().softmax(1), ulps=64)

    def norm(t):
        var, mean = ops.var_mean(t, [1], 0, True)
        return (t - mean) * ops.rsqrt(var + 1e-5)

    (out,) = fused(norm, x)
    wide = x.double()
    expected = torch.nn.functional.layer_norm(wide, shape[1:], eps=1e-5)
    assert float((out.double() - expected).abs().max()) < 2e-5


def test_empty_reductions():
    x = torch.randn(0, 8, device="cuda")
    (total,) = fused(lambda t: ops.sum(t, [0]), x)
    assert torch.equal(total, torch.zeros(8, device="cuda"))
    (none,) = fused(lambda t: ops.sum(t, [1]), x)
    assert none.shape == (0,)


SHORT = (
    ((1, 40), [0]),
    ((31, 4096), [0]),
    ((100, 999), [0]),
    ((132, 16384), [0]),
    ((264, 1024), [0]),
    ((264, 1030), [0]),
    ((264, 8192), [0]),
    ((289, 4096), [0]),
    ((512, 64), [0]),
    ((513, 64), [0]),
    ((6, 264, 100), [1]),
)
"""Columns that one pass takes whole, and lengths around those."""


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("shape", "dims"), SHORT, ids=str)
def test_short_columns(shape, dims, dtype):
    x, y = (torch.randn(shape, device="cuda").to(dtype) + 0.25 for _ in "xy")
    found = fused(lambda a, b: (ops.sum(a + b, dims), ops.sum(a * b, dims)), x, y)
    wide = x.double(), y.double()
    for out, terms in zip(found, (wide[0] + wide[1], wide[0] * wide[1]), strict=True):
        assert_near(out, terms.sum(dims), terms=_terms(shape, dims))


def test_a_thread_that_loads_nothing_does_not_leave_the_others():
    """The last block has a row too many, whose logarithm its four threads would take alike."""
    x = torch.randn(127, 8, dtype=torch.float64, device="cuda")

    def program(x):
        far = x - ops.max(x, 1, keepdim=True)
        logs = far - ops.log(ops.sum(ops.exp(far), 1, keepdim=True))
        return ops.var(logs, 0, correction=0), logs

    wanted = torch.log_softmax(x, 1).var(0, correction=0)
    for _ in range(10):
        torch.testing.assert_close(fused(program, x)[0], wanted, rtol=1e-12, atol=0)


def test_the_variance_of_equal_products_is_not_negative():
    """A product that is fused with the subtraction of the mean is not the rounded one whose mean
    it is.
    """
    x = torch.randint(1, 5, (256,), device="cuda") * torch.tensor([[-1.0], [1.0], [1.0]]).cuda()
    (variances,) = fused(lambda x: ops.var(ops.tanh(x) * (x * -1.55), 0), x)
    assert bool((variances >= 0).all())
    assert bool((variances < 1e-12).all())
