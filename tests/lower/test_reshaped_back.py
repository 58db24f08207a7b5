"""Results whose dimensions a reshape made from those of the loops: each element is stored once."""

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


@pytest.mark.few(3)
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


FLAT, PARTED = [24, 64], [3, 8, 64]


def back_and_forth(x: Any, dy: Any, weight: Any) -> Any:
    """dx and dW of an RMSNorm, of which a part is made in other rows than the rest."""
    scale = ops.rsqrt(ops.mean(x * x, [-1], keepdim=True) + 1e-5)
    normal, weighted = x * scale, dy * weight
    along = normal * ops.mean(weighted * normal, [-1], keepdim=True)
    back = ops.reshape(ops.reshape(along, FLAT), PARTED)
    return (weighted - back) * scale, ops.sum(dy * normal, [0, 1])


def other_rows(x: Any, dy: Any, weight: Any) -> Any:
    """The same, with statistics of rows that dx has otherwise."""
    scale = ops.rsqrt(ops.mean(x * x, [-1], keepdim=True) + 1e-5)
    normal, given = x * scale, ops.reshape(ops.reshape(dy, FLAT) * 1, PARTED)
    weighted = given * weight
    along = ops.reshape(ops.mean(weighted * normal, [-1], keepdim=True), [24, 1])
    dx = ops.reshape(weighted, FLAT) - ops.reshape(normal, FLAT) * along
    return dx * ops.reshape(scale, [24, 1]), ops.sum(given * normal, [0, 1])


@pytest.mark.parametrize("function", [back_and_forth, other_rows])
def test_a_norm_backward_goes_to_other_rows_and_back(function: Any) -> None:
    """Reshapes make each dimension of every other; a loop is made as its own schedule says."""
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(shape).astype(np.float32) for shape in (PARTED, PARTED, [64])]
    fused = warpsmith.fuse(function)
    with knobs.scope(device="sim"):
        found = [np.asarray(result) for result in fused(*given)]
        said = fused.lower(*given).compile().explain()
    assert "scheduler   inner_outer" in said
    x, dy, weight = (array.astype(np.float64) for array in given)
    scale = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
    along = x * scale * (dy * weight * x * scale).mean(-1, keepdims=True)
    np.testing.assert_allclose(found[0].reshape(PARTED), (dy * weight - along) * scale, 1e-4, 1e-4)
    np.testing.assert_allclose(found[1], (dy * x * scale).sum((0, 1)), 1e-4, 1e-4)
