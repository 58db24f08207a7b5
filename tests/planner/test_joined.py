"""Kernels that are one because that is predicted to be faster write all that is asked of them."""

from typing import Any

import numpy as np

import warpsmith
from warpsmith import knobs, ops


def test_a_result_of_16_bits_that_both_kernels_need_is_written() -> None:
    """Its Float value, which the next kernel reads, is another tensor than the result."""

    def program(x: Any) -> Any:
        means: Any = ops.mean(x, [1])
        away = means - ops.min(means, [0], keepdim=True)
        return ops.matmul(x, x), ops.sum(away, [0], keepdim=True), away

    x = np.array([[1, 2], [3, 5]], np.float16)
    with knobs.scope(device="sim"):
        _, total, away = warpsmith.fuse(program)(x)
    np.testing.assert_array_equal(away, [0, 2.5])
    np.testing.assert_array_equal(total, [2.5])
