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
