"""Scans in roles: rows that another role loads, by all threads of a role, or by groups in turn."""

import numpy as np
import pytest

from tests.support.ring_loads import BLOCK_X, BLOCK_Y, Kind
from tests.support.role_feeds import Feed, defined, others
from warpsmith import FusionDefinition, ParallelType
from warpsmith.errors import ScheduleError

GRID_X = ParallelType.grid_x


def rows(feed: Feed, groups: int) -> FusionDefinition:
    """Groups take rows in turn; threads of a group scan two elements each."""
    fd, (x,), y = defined([[-1, 192]], lambda fd, x: fd.ops.cumsum(x, 1) + 1.0)
    load = feed.copy(x)
    rest = others(fd, [load])
    for tensor in (load, *rest):
        tensor.split(0, groups)
        tensor.split(0, 2)
        tensor.axis(1).parallelize(GRID_X)
    for tensor in rest:
        tensor.axis(2).parallelize(BLOCK_Y)
        tensor.split(-1, 128)
        tensor.split(-1, 2)
        tensor.axis(-2).parallelize(BLOCK_X)
        tensor.axis(-1).parallelize(ParallelType.unroll)
    made = [t for t in fd.fusion.tensors if not t.is_input and t is not y]
    fd.sched.inline_at(y, 2, selected_tensors=made)
    fd.sched.inline_at(y, 4, best_effort=True, selected_tensors=others(fd, [load, y]))
    load.circular_buffer(feed.stages, role="load", stage_slice_position=3)
    feed.bind(load)
    return fd


@pytest.mark.parametrize("groups", [1, 2])
def test_rows_are_scanned_while_others_are_loaded(groups: int) -> None:
    """Clean under all orders of warps, protocol proven, and right."""
    fd = rows(Feed(Kind.bulk, 4), groups)
    a = np.random.default_rng(0).integers(-9, 9, (13, 192)).astype(np.float32)
    (result,) = fd.manual_execute([a])
    np.testing.assert_array_equal(result, np.cumsum(a, 1) + 1)
    assert fd.verify([a]).verdict == "clean"


def test_groups_that_take_turns_do_not_scan_together() -> None:
    """Rows are loaded one by one, for groups in turn, and would be what the groups scan."""
    fd, (x,), y = defined([[-1, 64]], lambda fd, x: fd.ops.cumsum(x, 0) + 1.0)
    load = Feed(Kind.bulk, 4).copy(x)
    rest = others(fd, [load])
    for tensor in (load, *rest):
        tensor.split(0, 2)
    for tensor in rest:
        tensor.axis(1).parallelize(BLOCK_Y)
        tensor.axis(2).parallelize(BLOCK_X)
    fd.sched.inline_most([t for t in fd.fusion.tensors if not t.is_input and t is not y])
    load.compute_at = 1
    load.circular_buffer(4, role="load", stage_slice_position=2)
    Feed(Kind.bulk, 4).bind(load)
    with pytest.raises(
        ScheduleError, match=r"WS1021.*is scanned along block_y, along which groups"
    ):
        fd.manual_execute([np.ones((8, 64), np.float32)])
