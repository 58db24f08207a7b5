"""Quotients of small integers and a constant: all their bits, without a division."""

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


def operations(function: Any, dtype: DataType) -> set[str]:
    fusion = defined(function, random((4,), dtype)).fusion
    rewrite(fusion)
    return {made.op for made in fusion.operations if isinstance(made, Pointwise)}


def test_which_quotients_are_multiplied() -> None:
    for dtype in (DataType.Int16, DataType.UInt8):
        assert operations(lambda x: x / 255, dtype) == {"cast", "times_parts"}
    for divisor in (0.0, -255.0, 0.1, 4.0, 2.0**80 * 3, 65537.0 * 3, float("inf"), float("nan")):
        made = operations(lambda x: x / divisor, DataType.UInt8)  # noqa: B023  # called at once
        assert "times_parts" not in made, divisor
    for other in (FLOAT, DataType.Int32):
        assert "times_parts" not in operations(lambda x: x / 255, other)
    assert "times_parts" not in operations(lambda x: 255 / ops.cast(x, FLOAT), DataType.UInt8)
    wide = operations(lambda x: ops.cast(x, DataType.Double) / 255, DataType.UInt8)
    assert "times_parts" not in wide
    half = operations(lambda x: ops.cast(x / 255, DataType.Half), DataType.UInt8)
    assert "divide_full" in half
