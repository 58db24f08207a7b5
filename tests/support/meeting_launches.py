"""Kernels of meetings on the GPU: the launches of each, for a process of its own."""

from tests.support.meeting_kernels import Meeting, planned_kernel
from tests.support.meeting_runs import expected, given
from warpsmith import knobs
from warpsmith.codegen.cuda import cuda_text
from warpsmith.engine.launches import formats_of
from warpsmith.engine.tensor_maps import tiled_maps
from warpsmith.ir.scalar import evaluate
from warpsmith.kernel.kernel import layout_of
from warpsmith.lower.passes.elect_by_warp import elect_by_warp
from warpsmith.runtime.arguments import ArgumentBuffer
from warpsmith.runtime.cache import CubinCache
from warpsmith.runtime.launch import LoadedKernel
from warpsmith.runtime.source import Source
from warpsmith.runtime.stream import current_stream
from warpsmith.targets.hopper import H200


def launch_meetings(meetings: tuple[Meeting, ...], launches: int) -> list[str]:
    """Launch each kernel so often without a pause, each time into memory that holds NaNs.

    Returns the names of those that left a wrong result.
    """
    return [meeting.name for meeting in meetings if _wrong(meeting, launches)]


def _wrong(meeting: Meeting, launches: int) -> int:
    """Elements of all results together that are wrong."""
    import torch

    kernel = planned_kernel(meeting)
    source = Source(text=cuda_text(elect_by_warp(kernel), H200), entry=kernel.name, arch="sm_90a")
    binary = CubinCache(knobs.current().cache_dir).get_or_compile(source)
    loaded = LoadedKernel(binary, kernel.name, 0)
    arguments = ArgumentBuffer(formats_of(kernel))
    x = torch.from_numpy(given(meeting).reshape(-1).view("int16")).cuda().view(torch.bfloat16)
    known = torch.from_numpy(expected(meeting)).cuda().float().nan_to_num(99)
    y = torch.empty(known.shape, dtype=torch.bfloat16, device="cuda")
    addresses = {"X": x.data_ptr(), "Y": y.data_ptr()}
    maps = [each.encode(addresses[each.tensor], 0) for each in tiled_maps(kernel, {})]
    arguments.set((*addresses.values(), *maps))
    x_grid, y_grid, z_grid = (evaluate(extent, {}) for extent in kernel.launch.grid)
    x_block, y_block, z_block = (evaluate(extent, {}) for extent in kernel.launch.block)
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    for _ in range(launches):
        y.fill_(torch.nan)
        loaded.launch(
            (x_grid, y_grid, z_grid),
            (x_block, y_block, z_block),
            evaluate(layout_of(kernel).bytes, {}),
            current_stream(0),
            arguments,
        )
        wrong += (y.float().nan_to_num(99) != known).sum()
    return int(wrong)
