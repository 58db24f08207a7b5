"""Reductions over clusters of whose results each block keeps a share."""

from typing import Any

import numpy as np
import pytest

from warpsmith import DataType, FusionDefinition, ParallelType, knobs
from warpsmith.errors import ScheduleError

BLOCKS = 4


def scheduled(
    *, shares: int = BLOCKS, inlined: int = 1, block: bool = False, parts: bool = True
) -> Any:
    """Twice the sums of rows, 32 rows a share; blocks have parts of the rows, with `block` threads
    of theirs too.
    """
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1, -1], True, DataType.Float)
        total = fd.ops.sum(x, [2])
        y = fd.ops.mul(total, 2.0)
        fd.add_output(y)
        y.split(1, 8)
        y.split(1, shares)
        y.merge(0)  # [tiles, shares, 8]
        fd.sched.transform_like(y)
        total.split(3, BLOCKS, inner_split=False)
        if block:
            total.split(4, 32)
        partial = total.rfactor([4]) if parts else total  # [tiles, shares, 8, blocks, parts]
        for tensor in (y, total):
            tensor.axis(1).parallelize(ParallelType.cluster_x)
        for tensor in (y, total, partial):
            tensor.axis(0).parallelize(ParallelType.grid_x)
            tensor.axis(2).parallelize(ParallelType.block_y)
        if not parts:
            total.axis(4).parallelize(ParallelType.block_x)
        for tensor in (total, partial):
            tensor.axis(3).parallelize(ParallelType.cluster_x)
            if block:
                tensor.axis(-1 if tensor is total else 5).parallelize(ParallelType.block_x)
        fd.sched.inline_at(y, inlined, best_effort=True)
    return fd


@pytest.mark.few(3)
@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("shape", [(3, 70, 75), (1, 1, 1), (2, 32, 4000)])
def test_each_block_keeps_its_share(shape: tuple[int, int, int], block: bool) -> None:
    """Rows beyond the last, and blocks without a part of theirs, among them."""
    fd = scheduled(block=block)
    given = np.random.default_rng(0).uniform(1, 2, shape).astype(np.float32)
    with knobs.scope(device="sim"):
        (result,) = fd.manual_execute([given])
        np.testing.assert_allclose(result, 2 * given.sum(2), rtol=1e-5)
        assert fd.verify([given], schedules=2).verdict == "clean"


def test_each_block_gets_what_it_keeps_alone() -> None:
    """Four parts of a share of 8 rows, 4 bytes each, and not of all 32."""
    fd = scheduled()
    with knobs.scope(device="sim"):
        fd.manual_execute([np.ones((1, 32, 8), np.float32)])
    assert "1 stage of 128 bytes (T1_of_blocks)" in fd.explain()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"inlined": 2, "parts": False}, "which is a loop around the reduction"),
        ({"shares": 2}, "of which there are 2"),
    ],
)
def test_shares_that_blocks_cannot_keep_are_refused(given: dict[str, int], why: str) -> None:
    fd = scheduled(**given)
    with knobs.scope(device="sim"), pytest.raises(ScheduleError, match=why) as refused:
        fd.manual_execute([np.ones((1, 32, 8), np.float32)])
    assert refused.value.code == "WS1025"
