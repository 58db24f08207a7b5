"""Reductions and scans by rules, of every pattern of dimensions, against float64."""

import pytest
import torch

from tests.gpu.support import assert_near, fused
from warpsmith import fuse, ops

SHAPES = ((1, 1), (64, 96), (1001, 1003), (3, 100_003), (100_003, 3), (1, 5_000_000), (8192, 4096))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cumsum(shape, dtype, dim):
    x = torch.randn(shape, device="cuda").to(dtype)
    up, down = fused(lambda t: (ops.cumsum(t, dim), ops.cumsum(t, dim, reverse=True)), x)
    assert_near(up, x.double().cumsum(dim), terms=shape[dim])
    assert_near(down, x.double().flip(dim).cumsum(dim).flip(dim), terms=shape[dim])


@pytest.mark.parametrize(
    ("shape", "dim"), [((1, 5_000_000), 1), ((7, 100_003), 1), ((100_003, 64), 0)]
)
def test_blocks_of_the_grid_share_rows_a_thousand_times(shape, dim):
    """Each launch finds the words as the one before left them, and the same bits."""
    x = torch.randn(shape, device="cuda")
    scan = fuse(lambda t: ops.cumsum(t, dim))
    first = scan(x)
    assert_near(first, x.double().cumsum(dim), terms=shape[dim])
    differ = torch.zeros((), dtype=torch.int64, device="cuda")
    for _ in range(1000):
        differ += (scan(x) != first).sum()
    assert differ.item() == 0


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_places_and_extremes_so_far(shape, dim):
    x = torch.randint(0, 50, shape, device="cuda").float()
    place, value, index = fused(lambda t: (ops.argmax(t, dim), *ops.cummax(t, dim)), x)
    assert torch.equal(place, x.cpu().argmax(dim).cuda())  # the first of equal ones
    wanted = torch.cummax(x, dim)
    assert torch.equal(value, wanted.values)
    assert torch.equal(x.gather(dim, index), wanted.values)


@pytest.mark.parametrize("dims", [[0], [1], [0, 1]], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_logsumexp(shape, dims):
    x = torch.randn(shape, device="cuda") * 20
    (out,) = fused(lambda t: ops.logsumexp(t, dims), x)
    assert_near(out, torch.logsumexp(x.double(), dims), terms=64)


def test_a_softmax_that_no_kernel_keeps():
    x = torch.randn((4, 3_000_000), device="cuda")
    power = lambda t: ops.exp(t - ops.max(t, [1], True))  # noqa: E731
    (out,) = fused(lambda t: power(t) / ops.sum(power(t), [1], True), x)
    assert_near(out, torch.softmax(x.double(), 1), terms=64)
