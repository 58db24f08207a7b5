"""Results whose dimensions a reshape made from those of the loops: each element is stored once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpsmith
from warpsmith import knobs, ops


def in_groups(sizes: list[int], back: list[int]) -> Any:
    """Centre each group of `[2, 8, 3, 5]`'s channels, and go back; in constants."""

    def function(x: Any) -> Any:
        wide = ops.reshape(x, sizes)
        mean = ops.mean(wide, [2, 3, 4], keepdim=True)
        return ops.reshape(wide - mean, back)

    return function


@pytest.mark.parametrize("back", [[2, 8, 3, 5], [2, 8, 15], [16, 15], [240]], ids=str)
def test_every_element_is_written(back: list[int]) -> None:
    x = np.random.default_rng(0).standard_normal((2, 8, 3, 5)).astype(np.float32)
    fused = warpsmith.fuse(in_groups([2, 4, 2, 3, 5], back))
    with knobs.scope(device="sim"):
        found = np.asarray(fused(x))
    groups = x.reshape(2, 4, 2, 3, 5).astype(np.float64)
    expected = (groups - groups.mean((2, 3, 4), keepdims=True)).reshape(back)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "kept", [(4, 1, 1), (1, 3, 1), (1, 1, 5), (4, 3, 1), (4, 1, 5), (1, 3, 5)], ids=str
)
def test_what_lacks_dimensions_is_written_beside_what_a_reshape_splits(
    kept: tuple[int, ...],
) -> None:
    """A draw splits one index into the dimensions of the result, of which another has some."""

    def function(x: Any, y: Any) -> Any:
        dropped, _ = ops.dropout(x, 0.5, rng_seed=1, rng_offset=0)
        return dropped * y, ops.neg(y)

    x, y = np.ones((4, 3, 5), np.float32), np.random.default_rng(1).random(kept).astype(np.float32)
    with knobs.scope(device="sim"):
        _, found = warpsmith.fuse(function)(x, y)
    np.testing.assert_array_equal(found, -y)
