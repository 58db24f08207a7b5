"""Pointwise fusions over every kind of memory layout, against float64."""

from collections.abc import Callable

import pytest
import torch

from tests.gpu.support import assert_near, fused
from warpsmith import DataType, ops

SHAPES = ((1,), (7,), (1000,), (1, 1), (3, 5), (64, 96), (1001, 1003), (5, 1, 8), (2, 3, 4, 5))
DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


def silu_mul(x, y):
    return ops.silu(x) * y


def wide_silu_mul(x, y):
    return torch.nn.functional.silu(x.double()) * y.double()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_contiguous(shape, dtype):
    x, y = (torch.randn(shape, device="cuda").to(dtype) for _ in range(2))
    (out,) = fused(silu_mul, x, y)
    assert_near(out, wide_silu_mul(x, y))


def _padded(t):
    wide = torch.full((*t.shape[:-1], t.shape[-1] + 24), float("nan"), device="cuda", dtype=t.dtype)
    view = wide[..., : t.shape[-1]]
    return view.copy_(t)


def _strided(t):
    wide = torch.full((*t.shape[:-1], t.shape[-1] * 2), float("nan"), device="cuda", dtype=t.dtype)
    view = wide[..., ::2]
    return view.copy_(t)


def _misaligned(t):
    flat = torch.full((t.numel() + 3,), float("nan"), device="cuda", dtype=t.dtype)
    return flat[3:].view(t.shape).copy_(t)


LAYOUTS: dict[str, Callable] = {
    "padded": _padded,
    "strided": _strided,
    "misaligned": _misaligned,
    "transposed": lambda t: t.transpose(-1, -2).contiguous().transpose(-1, -2),
    "expanded": lambda t: t[:1].expand(t.shape),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(64, 96), (65, 130), (1001, 1003), (256, 512)], ids=str)
def test_one_operand_of_another_layout(shape, layout, dtype):
    x, y = (torch.randn(shape, device="cuda").to(dtype) for _ in range(2))
    x = LAYOUTS[layout](x)
    for first, second in ((x, y), (y, x)):
        (out,) = fused(silu_mul, first, second)
        assert_near(out, wide_silu_mul(first, second))


@pytest.mark.parametrize("shape", [(64, 96), (65, 130)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_both_operands_of_another_layout(shape, layout):
    x, y = (LAYOUTS[layout](torch.randn(shape, device="cuda")) for _ in range(2))
    (out,) = fused(silu_mul, x, y)
    assert_near(out, wide_silu_mul(x, y))


@pytest.mark.parametrize(
    ("shape", "other"),
    [
        ((64, 96), (96,)),
        ((64, 96), (64, 1)),
        ((64, 96), (1, 96)),
        ((64, 96), ()),
        ((1003, 1001), (1001,)),
        ((8, 16, 14, 14), (16, 1, 1)),
        ((8, 1, 96), (1, 16, 1)),
        ((64, 1), (1, 96)),
    ],
    ids=str,
)
def test_broadcasts(shape, other):
    x = torch.randn(shape, device="cuda").bfloat16()
    y = torch.randn(other, device="cuda").bfloat16()
    (out,) = fused(silu_mul, x, y)
    assert_near(out, wide_silu_mul(x, y))


def test_channels_last():
    x = torch.randn(4, 16, 14, 14, device="cuda").to(memory_format=torch.channels_last)
    y = torch.randn(16, 1, 1, device="cuda")
    (out,) = fused(silu_mul, x, y)
    assert_near(out, wide_silu_mul(x, y))


@pytest.mark.parametrize("shape", [(0,), (0, 8), (8, 0), (3, 0, 5)], ids=str)
def test_nothing_to_compute(shape):
    x = torch.randn(shape, device="cuda")
    (out,) = fused(silu_mul, x, x)
    assert out.shape == x.shape


@pytest.mark.parametrize("extra", [8, 3], ids=("whole vectors", "odd"))
def test_more_than_2_31_elements(extra):
    count = 2**31 + extra
    x = torch.empty(count, device="cuda", dtype=torch.bfloat16).uniform_(-1, 1)
    kernel_out = fused(lambda t: t * 2.0, x)[0]
    for start in (0, 2**30, 2**31 - 1024, count - 2048):
        part = slice(start, min(start + 2048, count))
        assert torch.equal(kernel_out[part], x[part] * 2)
    del kernel_out
    (total,) = fused(lambda t: ops.sum(ops.cast(t, DataType.Float)), x)
    expected = sum(float(c.double().sum()) for c in x.split(2**28))
    assert abs(float(total) - expected) <= 1e-3 * max(abs(expected), count**0.5)


def test_permute_reshape_and_views():
    x = torch.randn(6, 8, 10, device="cuda")

    def function(t):
        swapped = ops.permute(t, [2, 0, 1])
        return ops.reshape(swapped, [10, 48]) + 1.0

    (out,) = fused(function, x)
    assert_near(out, x.double().permute(2, 0, 1).reshape(10, 48) + 1)
