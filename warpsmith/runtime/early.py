"""Launches that may start while the kernel before them still runs (programmatic dependent launch).

Without it a kernel starts when all before it on its stream is over. With it its blocks may start,
wherever there is room, as soon as all blocks of the kernel before it have allowed that or ended.
Such a kernel waits itself, by `griddepcontrol.wait`, before it touches what others touch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

_SETTINGS_KEPT = 64
"""Settings of launches that are kept ready: a signature has one a stream."""


def early_launcher(driver: Any) -> Callable[..., tuple[Any, ...]]:
    """A function like `cuLaunchKernel`, with its arguments, of launches that may start early.

    Args:
        driver: the bindings of the CUDA driver.
    """

    @lru_cache(maxsize=_SETTINGS_KEPT)
    def settings(*numbers: int) -> Any:
        """Grid and block (x, y, z), bytes of dynamic shared memory, and the stream."""
        allowed = driver.CUlaunchAttribute()
        kinds = driver.CUlaunchAttributeID
        allowed.id = kinds.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        allowed.value.programmaticStreamSerializationAllowed = 1
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = numbers[:3]
        config.blockDimX, config.blockDimY, config.blockDimZ = numbers[3:6]
        config.sharedMemBytes = numbers[6]
        config.hStream = driver.CUstream(numbers[7])
        config.attrs = [allowed]
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
