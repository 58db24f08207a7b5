"""Threads of blocks of every shape reduce along any of its axes, and so do blocks."""

import pytest

from tests.support.block_reductions import CASES, TYPES, Axes, Shape, check
from warpsmith import knobs


@pytest.mark.few(8)
@pytest.mark.parametrize("splits", [1, 2, 7])
@pytest.mark.parametrize(("block", "axes"), CASES)
@pytest.mark.parametrize("name", TYPES)
def test_right_whoever_reduces(name: str, block: Shape, axes: Axes, splits: int) -> None:
    with knobs.scope(device="sim"):
        check(name, block, axes, splits)
