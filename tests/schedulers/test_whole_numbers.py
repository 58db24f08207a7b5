"""Quotients that become whole numbers."""

from typing import Any

import pytest
import torch

from tests.schedulers.test_quotients import defined, random
from warpsmith import knobs, ops
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Pointwise
from warpsmith.schedulers.rewrite import rewrite


def quantized(x: Any, scale: Any) -> Any:
    return ops.cast(ops.clamp(ops.round(x / scale), -128.0, 127.0), DataType.Int8)


def float8(x: Any) -> Any:
    return ops.cast(x, DataType.Float8_e4m3fn)


def names(function: Any, *given: Any) -> set[str]:
    fusion = defined(function, *given).fusion
    rewrite(fusion)
    return {made.op for made in fusion.operations if isinstance(made, Pointwise)}


def test_only_what_becomes_a_whole_number_is_divided_so() -> None:
    x, one = random((4, 8), DataType.Float), random((4, 1), DataType.Float)
    assert names(quantized, x, one) == {"divide_whole", "clamp", "nearest_int", "cast"}
    assert names(lambda x: ops.cast(ops.round(x), DataType.Int32), x) == {"nearest_int", "cast"}
    assert names(lambda x, d: float8(x / d), x, one) == {"divide_whole", "cast"}
    bounded = names(lambda x, d: float8(ops.clamp(x / d, -448.0, 448.0)), x, one)
    assert bounded == {"divide_whole", "clamp", "cast"}
    kept = (
        lambda x, d: ops.clamp(x / d, -448.0, 448.0),
        lambda x, d: float8(ops.clamp(x / d, -0.3, 448.0)),
        lambda x, d: float8(x / x) * float8(d),
        lambda x, d: ops.round(y := x / d) + y,
        lambda x, d: ops.floor(x / d),
        lambda x, d: ops.round(x / x) + d,
    )
    for function in kept:
        assert "divide_whole" not in names(function, x, one)
    cast = (
        lambda x, d: ops.cast(ops.clamp(ops.round(x), -0.5, 3.0), DataType.Int8),
        lambda x, d: ops.cast(ops.round(x), DataType.Int),
        lambda x, d: (ops.cast(whole := ops.round(x), DataType.Int32), whole),
    )
    for function in cast:
        assert "nearest_int" not in names(function, x, one)


@pytest.mark.parametrize("low", [1e-3, 1e-38, 1e-42, 1e30])
def test_middles_go_to_the_even_number(low: float) -> None:
    torch.manual_seed(1)
    scale = torch.randint(1, 2**12, (16, 1)).float() * low
    halves = torch.randint(-300, 300, (16, 64)).float() / 2
    x = torch.cat([scale * halves, torch.randn(16, 64) * 40 * scale], 1)
    x[:, 0], x[0], scale[0], x[1, 1], scale[2] = 0, 1, 0, torch.nan, torch.inf
    with knobs.scope(device="sim"):
        (found,) = defined(quantized, x, scale).execute([x, scale])
    exact = (x / scale).round().clamp(-128, 127)
    wanted = torch.where(exact.isnan(), 0, exact).to(torch.int8)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_middles_of_floats_of_8_bits(dtype: torch.dtype) -> None:
    """A row's largest element is 448; others lie between two of 8 bits, as torch finds them."""
    torch.manual_seed(2)
    x = (torch.randint(-512, 512, (16, 64)) * torch.rand(16, 1)).to(dtype)
    scale = x.abs().amax(-1, keepdim=True).float() / 448

    with knobs.scope(device="sim"):
        (found,) = defined(lambda x, d: float8(ops.cast(x, DataType.Float) / d), x, scale).execute(
            [x, scale]
        )
    wanted = (x.float() / scale).to(torch.float8_e4m3fn)
    torch.testing.assert_close(found.float(), wanted.float(), rtol=0, atol=0)
