"""Quotients by a constant: nearly all their bits, of small integers all, without a division."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.against_torch import TORCH, defined, random
from warpsmith import DataType, knobs, ops
from warpsmith.ir.exprs import Pointwise
from warpsmith.schedulers.rewrite import rewrite

FLOAT = DataType.Float
DIVISORS = (255, 3, 127.5, 65535, 0.0078125 * 19, 2.0**40 * 25)


@pytest.mark.parametrize("dtype", [DataType.Int16, DataType.Int8, DataType.UInt8], ids=str)
def test_all_bits_are_those_of_the_division(dtype: DataType) -> None:
    numbers = np.array(dtype.numbers)
    drawn = np.random.default_rng(5).choice(numbers, 6000)
    x = torch.from_numpy(np.concatenate([numbers[:128], numbers[-128:], drawn])).to(TORCH[dtype])

    def program(x: Any) -> Any:
        return tuple(ops.cast(x, FLOAT) / divisor for divisor in DIVISORS)

    with knobs.scope(device="sim"):
        found = defined(program, x).execute([x])
    for got, divisor in zip(found, DIVISORS, strict=True):
        wanted = x.float() / torch.tensor(divisor, dtype=torch.float32)
        assert torch.equal(got.view(torch.int32), wanted.view(torch.int32)), divisor


def test_quotients_of_floats_are_the_nearest_but_for_few() -> None:
    x = torch.cat((torch.randn(20000), torch.randn(2000) * 1e30, torch.randn(2000) * 1e-36))
    divisors = (30.0, -6.0, 0.7, math.pi, 1e-10)

    def program(x: Any) -> Any:
        return tuple(x / divisor for divisor in divisors)

    with knobs.scope(device="sim"):
        found = defined(program, x).execute([x])
    for got, divisor in zip(found, divisors, strict=True):
        wanted = x / torch.tensor(divisor)
        off = (got.view(torch.int32) - wanted.view(torch.int32)).abs()
        assert int(off.max()) <= 1, divisor
        assert int(off[wanted.abs() > 1e-30].count_nonzero()) < 10, divisor


def test_zeros_infinities_and_nan_stay_what_they_are() -> None:
    x = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 3.4e38, -1e-44])
    for divisor in (30.0, -7.0):
        with knobs.scope(device="sim"):
            (got,) = defined(lambda x: x / divisor, x).execute([x])  # noqa: B023  # called at once
        wanted = x / torch.tensor(divisor)
        torch.testing.assert_close(got, wanted, rtol=1e-6, atol=0, equal_nan=True)
        assert torch.equal(got.signbit()[:4], wanted.signbit()[:4])


def operations(function: Any, dtype: DataType) -> set[str]:
    fusion = defined(function, random((4,), dtype)).fusion
    rewrite(fusion)
    return {made.op for made in fusion.operations if isinstance(made, Pointwise)}


def test_which_quotients_are_multiplied() -> None:
    for dtype in (DataType.Int16, DataType.UInt8, DataType.Int32, DataType.Half):
        assert "times_parts" in operations(lambda x: x / 255, dtype)
    for divisor in (0.0, 4.0, -0.125, 2.0**80 * 3, 2.0**-70 * 3, float("inf"), float("nan")):
        made = operations(lambda x: x / divisor, FLOAT)  # noqa: B023  # called at once
        assert "times_parts" not in made, divisor
    assert "times_parts" not in operations(lambda x: 255 / x, FLOAT)
    wide = operations(lambda x: ops.cast(x, DataType.Double) / 255, DataType.UInt8)
    assert "times_parts" not in wide


def test_one_over_a_root_is_one_operation() -> None:
    for function in (lambda x: 1 / ops.sqrt(x + 1), lambda x: ops.reciprocal(ops.sqrt(x + 1))):
        assert operations(function, FLOAT) == {"add", "rsqrt"}
    assert "sqrt" in operations(lambda x: 2 / ops.sqrt(x), FLOAT)
    assert "sqrt" in operations(lambda x: 1 / ops.sqrt(x), DataType.Double)

    def needed(x: Any) -> Any:
        root = ops.sqrt(x)
        return root, 1 / root

    assert "rsqrt" not in operations(needed, FLOAT)
    x = torch.rand(300) * 100
    with knobs.scope(device="sim"):
        (found,) = defined(lambda x: 1 / ops.sqrt(x), x).execute([x])
    torch.testing.assert_close(found, x.rsqrt(), rtol=3e-7, atol=0)


def of_rows(x: Any, divisor: Any) -> Any:
    """Quotients that are rounded to 16 bits behind a product and a sum."""
    scaled = x / divisor
    return ops.cast(scaled * x + ops.sum(scaled, [1], keepdim=True), DataType.BFloat16)


def test_which_quotients_need_not_be_exact() -> None:
    x, one = random((4, 8), FLOAT), random((4, 1), FLOAT)

    def names(function: Any, divisor: Any = one) -> set[str]:
        fusion = defined(function, x, divisor).fusion
        rewrite(fusion)
        return {made.op for made in fusion.operations if isinstance(made, Pointwise)}

    assert "divide_near" in names(of_rows)
    assert "divide_near" in names(lambda x, d: ops.sum(x / d, [1]))
    assert "divide_near" in names(of_rows, random((4, 8), FLOAT))
    exact = (
        lambda x, d: x / d,
        lambda x, d: (ops.cast(x / d, DataType.Half), ops.neg(x / d)),
        lambda x, d: ops.cast(1 - x / d, DataType.Half),
        lambda x, d: ops.cast(ops.log(x / d), DataType.Half),
        lambda x, d: ops.cast(ops.where(x / d > 1, x, 0.0), DataType.Half),
        lambda x, d: ops.max(x / d, [1]),
        lambda x, d: ops.cast(ops.sum(x, [1], keepdim=True) / 8 * d, DataType.Half),
    )
    for function in exact:
        assert "divide_near" not in names(function)


def test_those_of_rows_are_within_two_ulp_whatever_the_sizes() -> None:
    """All elements of a row are the same, so that its sum has four times each one's error."""
    sizes = [0.0, 1e-45, 3e-42, 1e-38, 1.3e-38, 1e-30, 7e-20, 1.0, 3.0, 2.0**64, 1e25, 3e38]
    special = np.array([*sizes, -5.0, -2e-41, -3e38, np.inf, -np.inf, np.nan], np.float32)
    drawn = np.random.default_rng(7).normal(size=60) * 10.0 ** np.linspace(-44, 38, 60)
    numbers = np.concatenate([special, drawn.astype(np.float32)])
    a, b = (grid.ravel() for grid in np.meshgrid(numbers, numbers))
    x, divisor = torch.from_numpy(np.repeat(a[:, None], 4, 1)), torch.from_numpy(b[:, None].copy())
    with knobs.scope(device="sim"):
        (got,) = defined(lambda x, d: ops.sum(x / d, [1]), x, divisor).execute([x, divisor])
    with np.errstate(all="ignore"):
        wanted = torch.from_numpy((a.astype(np.float64) / b).astype(np.float32) * np.float32(4))
    torch.testing.assert_close(got, wanted, rtol=2.0**-22, atol=6e-45, equal_nan=True)
