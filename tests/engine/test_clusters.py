"""Launches of kernels with clusters are checked."""

from dataclasses import replace

import pytest

from tests.support import by_maps
from warpsmith.engine.launches import CallPlan, plan_call
from warpsmith.engine.planned import PlannedSegment
from warpsmith.errors import DeviceError
from warpsmith.ir.dtypes import DataType
from warpsmith.knobs import Knobs
from warpsmith.lower.request import Request
from warpsmith.planner.segment import Segment
from warpsmith.targets.hopper import H200


def planned(rows: int, cluster: tuple[int, int, int]) -> CallPlan:
    """A call of a kernel that has a block for each 8 rows along x."""
    program, call = by_maps.planned(rows, 32, 32)
    (launch,) = call.launches
    kernel = launch.compiled.kernel
    kernel = replace(kernel, launch=replace(kernel.launch, cluster=cluster))
    compiled = replace(launch.compiled, kernel=kernel)
    variant = (None, DataType.Int32, (), Request())
    segment = PlannedSegment(Segment(program, ("T0",), ("T1",), H200), None, {variant: compiled})
    return plan_call(program, (segment,), by_maps.values(rows, 32, 32), {}, H200, Knobs())


def test_the_grid_is_a_multiple_of_the_cluster() -> None:
    (launch,) = planned(32, (4, 1, 1)).launches
    assert launch.grid[0] == 4
    with pytest.raises(DeviceError, match=r"a grid of \(5, .* its cluster of \(4, 1, 1\)"):
        planned(33, (4, 1, 1))
