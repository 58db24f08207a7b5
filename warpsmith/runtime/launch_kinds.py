"""How a kernel starts: behind what comes before it, early, or with all its blocks at once.

A plain launch starts when all before it on its stream is over, and its blocks as there is room.

Of an **early** one (programmatic dependent launch) blocks may start, wherever there is room, as
soon as all blocks of the kernel before it have allowed that or ended. It waits itself, by
`griddepcontrol.wait`, before it touches what others touch.

Of one that starts **together** (cooperative launch) all blocks run at once, so that they may wait
for each other, whatever else runs on the device. The driver refuses a grid for which the context's
multiprocessors have no room.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import lru_cache
from typing import Any

_SETTINGS_KEPT = 64
"""Settings of launches that are kept ready: a signature has one a stream."""


class LaunchKind(IntEnum):
    """The attribute of a launch, by its number in `cuda.h`: a switch that is set to 1."""

    PLAIN = 0
    TOGETHER = 2
    EARLY = 6


def launcher(driver: Any, kind: LaunchKind) -> Callable[..., tuple[Any, ...]]:
    """A function like `cuLaunchKernel`, with its arguments, of launches of one kind.

    Args:
        driver: the bindings of the CUDA driver.
    """
    if kind is LaunchKind.PLAIN:
        plain: Callable[..., tuple[Any, ...]] = driver.cuLaunchKernel
        return plain

    @lru_cache(maxsize=_SETTINGS_KEPT)
    def settings(*numbers: int) -> Any:
        """Grid and block (x, y, z), bytes of dynamic shared memory, and the stream."""
        asked = driver.CUlaunchAttribute()
        asked.id = driver.CUlaunchAttributeID(kind)
        if kind is LaunchKind.EARLY:
            asked.value.programmaticStreamSerializationAllowed = 1
        else:
            asked.value.cooperative = 1
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = numbers[:3]
        config.blockDimX, config.blockDimY, config.blockDimZ = numbers[3:6]
        config.sharedMemBytes = numbers[6]
        config.hStream = driver.CUstream(numbers[7])
        config.attrs = [asked]
        config.numAttrs = 1
        return config

    def launch(
        function: Any,
        grid_x: int,
        grid_y: int,
        grid_z: int,
        block_x: int,
        block_y: int,
        block_z: int,
        shared_bytes: int,
        stream: Any,
        parameters: int,
        extra: int,
    ) -> tuple[Any, ...]:
        config = settings(
            grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, int(stream)
        )
        answer: tuple[Any, ...] = driver.cuLaunchKernelEx(config, function, parameters, extra)
        return answer

    return launch
