"""Kernels with clusters in the engine: launches are checked, and simulated with their clusters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support import by_maps
from tests.support.cluster_kernels import RowSum
from warpsmith.codegen.cuda import cuda_text
from warpsmith.engine.compiled import CompiledKernel
from warpsmith.engine.launches import CallPlan, Launch, plan_call
from warpsmith.engine.planned import PlannedSegment
from warpsmith.engine.simulated import Memory
from warpsmith.errors import DeviceError
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import evaluate
from warpsmith.kernel.kernel import layout_of
from warpsmith.knobs import Knobs
from warpsmith.lower.request import Request
from warpsmith.planner.segment import Segment
from warpsmith.runtime.cache import CubinCache
from warpsmith.runtime.source import Source
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


def test_whole_clusters_are_simulated(tmp_path: Path) -> None:
    case = RowSum("gather", 4)
    kernel = case.kernel()
    source = Source(text=cuda_text(kernel, H200), entry=kernel.name, arch="sm_90a")
    shared = layout_of(kernel).bytes
    binary = CubinCache(tmp_path).get_or_compile(source)
    compiled = CompiledKernel(kernel, source.text, binary, target=H200)
    launch = Launch(
        compiled=compiled,
        params=None,
        grid=(8, 1, 1),
        block=(64, 1, 1),
        shared_bytes=evaluate(shared, {}),
        reserved_bytes=evaluate(shared, {}),
        pointers=("X", "Y"),
        maps=(),
        scalars=(),
        constants=(),
        formats="PP",
        workspaces=(),
    )
    memory, x, y = Memory(), case.inputs(), np.zeros(case.size, np.float32)
    memory.add("X", x, defined=True)
    memory.add("Y", y, defined=False)
    report = memory.run(launch, {}, schedules=2)
    assert report.verdict == "clean", str(report)
    memory.take_out("Y", y)
    np.testing.assert_array_equal(y, case.expected(x))
