"""Kernels with clusters on the GPU: the launches of each, for a process of its own."""

from __future__ import annotations

from typing import Any

from tests.support.cluster_kernels import RowSum
from tests.support.cluster_roles import ROWS, RoleSum
from warpsmith import knobs
from warpsmith.codegen.cuda import cuda_text
from warpsmith.engine.launches import formats_of
from warpsmith.ir.scalar import evaluate
from warpsmith.kernel.shared_memory import layout_of
from warpsmith.lower.passes.elect_by_warp import elect_by_warp
from warpsmith.runtime.arguments import ArgumentBuffer
from warpsmith.runtime.cache import CubinCache
from warpsmith.runtime.launch import LoadedKernel
from warpsmith.runtime.source import Source
from warpsmith.runtime.stream import current_stream
from warpsmith.targets.hopper import H200


def launch_often(case: RowSum | RoleSum, launches: int) -> int:
    """Launch a case so often without a pause, each time into memory that holds NaNs.

    Returns how many elements of all results together are wrong.
    """
    import torch

    kernel = case.kernel()
    source = Source(text=cuda_text(elect_by_warp(kernel), H200), entry=kernel.name, arch="sm_90a")
    binary = CubinCache(knobs.current().cache_dir).get_or_compile(source)
    loaded = LoadedKernel(binary, kernel.name, 0)
    given = case.inputs()
    x, expected = (torch.from_numpy(each).cuda() for each in (given, case.expected(given)))
    arguments = ArgumentBuffer(formats_of(kernel))
    (grid, block) = (
        tuple(evaluate(extent, {}) for extent in extents)
        for extents in (kernel.launch.grid, kernel.launch.block)
    )
    wrong: Any = torch.zeros((), dtype=torch.int64, device="cuda")
    size = case.size if isinstance(case, RowSum) else case.clusters * ROWS
    for _ in range(launches):
        y = torch.full((size,), torch.nan, device="cuda")
        arguments.set((x.data_ptr(), y.data_ptr()))
        loaded.launch(
            (grid[0], grid[1], grid[2]),
            (block[0], block[1], block[2]),
            evaluate(layout_of(kernel).bytes, {}),
            current_stream(0),
            arguments,
        )
        wrong += (y != expected).sum()
    return int(wrong)
