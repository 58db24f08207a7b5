"""How many clusters of a size run at once on a device.

A cluster's blocks lie in one of the chip's groups of multiprocessors. How many of a group are
switched off differs between two chips of one kind, so no table says it; the driver does.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from warpsmith.knobs import current
from warpsmith.runtime.cache import cubin_cache
from warpsmith.runtime.driver import check, device_properties, in_context, initialized
from warpsmith.runtime.source import Source
from warpsmith.targets.empty_kernel import ENTRY, TEXT, kept

_THREADS = 128


@cache
def clusters_at_once(
    ordinal: int, arch: str, sizes: tuple[int, ...]
) -> tuple[tuple[int, int], ...]:
    """(blocks, clusters of so many that device `ordinal` runs at once), for each of the sizes.

    Where a multiprocessor has room for one block only, as those have that use its shared memory
    up; 0 for sizes that the device does not run. Raises DeviceError where there is no such device.
    """
    driver, properties = initialized(), device_properties(ordinal)
    probe = Source(text=TEXT, entry=ENTRY, arch=arch)
    room = properties.shared_bytes_per_block_optin
    kinds = driver.CUfunction_attribute
    with in_context(ordinal):
        module = _loaded(driver, probe)
        try:
            function = check(driver.cuModuleGetFunction(module, probe.entry.encode()))
            for kind, value in (
                (kinds.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
                (kinds.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, room),
            ):
                check(driver.cuFuncSetAttribute(function, kind, value))
            return tuple(
                (blocks, _at_once(driver, function, blocks, properties.sm_count, room))
                for blocks in sizes
            )
        finally:
            check(driver.cuModuleUnload(module))


def _loaded(driver: Any, probe: Source) -> Any:
    """The module of the probe: as it is kept, or compiled where the driver does not take that."""
    cubin = kept(probe.arch)
    if cubin is not None:
        status, module = driver.cuModuleLoadData(cubin)
        if status == 0:
            return module
    knobs = current()
    binary = cubin_cache(knobs.cache_dir, knobs.cache_mib).get_or_compile(probe)
    return check(driver.cuModuleLoadData(binary.cubin))


def _at_once(driver: Any, function: Any, blocks: int, sm_count: int, room: int) -> int:
    """Clusters of a function's blocks, each with so much shared memory, that run at once."""
    shape = driver.CUlaunchAttribute()
    shape.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    shape.value.clusterDim.x = shape.value.clusterDim.y = 1
    shape.value.clusterDim.z = blocks
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = 1, 1, blocks * sm_count
    config.blockDimX, config.blockDimY, config.blockDimZ = _THREADS, 1, 1
    config.sharedMemBytes = room
    config.attrs, config.numAttrs = [shape], 1
    status, count = driver.cuOccupancyMaxActiveClusters(function, config)
    return int(count) if status == 0 else 0
