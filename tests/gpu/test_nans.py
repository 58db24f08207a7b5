"""NaNs in comparisons whose other side says what a range is: machine code must keep them."""

import math

import pytest

from warpsmith import fuse, ops

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_nothing_is_taken_for_granted_of_an_absolute_value(dtype: str) -> None:
    """Of `abs(x) + 0.5 > 0` ptxas made "always"."""
    x = torch.tensor([1.0, math.nan, -math.inf, 0.0], dtype=getattr(torch, dtype), device="cuda")
    chosen = fuse(lambda x: ops.where(ops.gt(ops.add(ops.abs(x), 0.5), 0), 1.0, 0.0))(x)
    assert chosen.tolist() == [1, 0, 1, 1]
