"""Quotients of bytes, some by 0, which is nobody's number, beside others in one word."""

import numpy as np
import pytest

from warpsmith import fuse, knobs, ops


@pytest.mark.parametrize("name", ["div", "fmod", "remainder", "floor_divide"])
def test_what_stands_beside_a_quotient_by_0_is_right(name: str) -> None:
    """The compiler took what that gives for a byte: its other bits went into bytes beside it."""
    numbers = np.array([0, 1, 2, 3, 5, 7, 255, 0, 254, 1, 100, 200, 255], np.uint8)
    x, y = numbers[:, None].copy(), numbers[None].copy()
    with knobs.scope(device="sim"):
        found = fuse(lambda x, y: getattr(ops, name)(x, y))(x, y)
    one = np.maximum(y, 1)
    exact = x % one if name in ("fmod", "remainder") else x // one
    np.testing.assert_array_equal(np.where(y, found, 0), np.where(y, exact, 0))
