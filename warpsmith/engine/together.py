"""Whether the blocks of a kernel that meet have room to run at once."""

from __future__ import annotations

from math import prod

from warpsmith.engine.compiled import CompiledKernel
from warpsmith.errors import DeviceError
from warpsmith.runtime.launch import Extent
from warpsmith.targets.family import WARP
from warpsmith.targets.target import Target


def check_together(
    compiled: CompiledKernel, grid: Extent, block: Extent, shared_bytes: int, target: Target
) -> None:
    """Refuse a grid of which some blocks would wait for others that cannot start.

    The launch asks for all at once, too, and the driver, which knows what is left of a device,
    refuses it where there is less than that.

    Raises:
        DeviceError: WS0616.
    """
    if not compiled.kernel.launch.together:
        return
    most = target.sm_count * _of_a_multiprocessor(
        compiled.n_regs, prod(block), shared_bytes, target
    )
    if prod(grid) > most:
        raise DeviceError(
            f"the blocks of kernel `{compiled.name}` wait for each other, so all {prod(grid)} of "
            f"its grid {grid} must run at once, and {target.name} has room for {most}",
            code="WS0616",
            remedy="split what is reduced over fewer blocks",
        )


def _of_a_multiprocessor(registers: int, threads: int, shared_bytes: int, target: Target) -> int:
    limits = target.family.limits
    shared = -(-(shared_bytes + limits.shared_taken) // limits.shared_step) * limits.shared_step
    return min(
        limits.blocks_of(registers, threads),
        limits.sm_threads // (-(-threads // WARP) * WARP),
        limits.sm_shared // shared,
        limits.sm_blocks,
    )
