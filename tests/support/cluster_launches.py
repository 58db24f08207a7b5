"""Kernels with clusters on the GPU: the launches of each, for a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.cluster_kernels import RowSum
from tests.support.cluster_products import cluster_product
from tests.support.cluster_roles import ROWS, RoleSum
from tests.support.matmuls import check_on_gpu, poison
from warpsmith import knobs
from warpsmith.codegen.cuda import cuda_text
from warpsmith.engine.launches import formats_of
from warpsmith.ir.scalar import evaluate
from warpsmith.kernel.kernel import layout_of
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


def product_launches(
    cluster: tuple[int, int],
    ping_pong: bool,
    sizes: Sequence[tuple[int, int, int]],
    launches: int,
) -> int:
    """Products by hand at these sizes, each launched so often with equal bits, held against
    float64; how many there were.
    """
    import torch

    fd = cluster_product(cluster, ping_pong=ping_pong, grid=8)
    for number, (m, n, k) in enumerate(sizes):
        torch.manual_seed(number)
        x, weight = (torch.rand(r, k, device="cuda").mul_(4).sub_(2).bfloat16() for r in (m, n))
        poison(m, n)
        (first,) = fd.manual_execute([x, weight])
        check_on_gpu(first, x, weight)
        differences = torch.zeros((), dtype=torch.int64, device="cuda")
        for _ in range(launches - 1):
            differences += (fd.manual_execute([x, weight])[0] != first).sum()
        assert int(differences) == 0, f"{int(differences)} elements differ"
    return len(sizes)
