"""What is proved of a kernel before it is launched, and again at new sizes."""

from __future__ import annotations

from collections.abc import Mapping

from warpsmith.engine.room import check_room
from warpsmith.kernel.kernel import Kernel
from warpsmith.protocol.block_numbers import check_numbers
from warpsmith.protocol.blocks_together import check_meetings
from warpsmith.protocol.launched import launch_values
from warpsmith.protocol.succession import check_start
from warpsmith.runtime.heap import give_back
from warpsmith.targets.target import Target


def prove(kernel: Kernel, values: Mapping[str, int], target: Target) -> int:
    """Show that no block can hang or race at these sizes, whatever the order of events.

    Kernels without circular buffers and clusters have barriers of the whole block only, which
    lowering puts where all threads come by. What is launched early waits before it touches global
    memory. Blocks of the grid wait only for those that have started, or that run at once.

    Args:
        values: of the launch's scalars.
        target: that runs it.

    Returns:
        iterations to which loops were cut, since a block's whole run was too long to be listed; 0
        where none were.

    Raises:
        ArgumentError: as `check_room` does.
        ProtocolError: with the shortest run that goes wrong.
    """
    check_room(kernel, launch_values(kernel, values, (0, 0, 0)), target.family.limits)
    check_start(kernel)
    check_numbers(kernel)
    check_meetings(kernel)
    if not kernel.pipelines and kernel.launch.cluster_blocks == 1:
        return 0
    from warpsmith.protocol.checks import check_blocks  # while NVRTC has the kernel
    from warpsmith.protocol.sizes import blocks_of

    verdicts = check_blocks(kernel, values, blocks_of(kernel, values), target=target)
    give_back()
    return min((v.shortened for v in verdicts if v.shortened), default=0)
