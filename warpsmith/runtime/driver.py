"""The CUDA driver, as far as warpsmith needs it: devices, contexts, and errors in words."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from warpsmith.errors import DeviceError
from warpsmith.values import dataclass

_NO_DEVICE = (
    "an NVIDIA GPU and a driver for CUDA 13 are needed; without them set WARPSMITH_DEVICE=reference"
)


TOO_OLD = "WS0609"
"""The code of a driver that is older than what NVRTC makes."""

_LEAST_VERSION = 13000
"""As `cuDriverGetVersion` counts. Drivers load the cubins of their own major version, and older."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProperties:
    """What a device offers. Shared memory and L2 in bytes, registers of 32 bits; what its memory
    moves by its clock and the width of its bus, in bytes a microsecond.
    """

    name: str
    compute_capability: tuple[int, int]
    sm_count: int
    shared_bytes_per_block_optin: int
    shared_bytes_per_sm: int
    registers_per_sm: int
    max_threads_per_sm: int
    l2_bytes: int
    memory_bytes_per_us: int


def check(result: tuple[Any, ...]) -> Any:
    """Unpack what a driver call returned: nothing, its one value, or the tuple of its values.

    Raises DeviceError with the name and the text of a status that is not success.
    """
    status, *values = result
    if status != 0:
        raise DeviceError(f"the CUDA driver answered {_described(status)}")
    if not values:
        return None
    return values[0] if len(values) == 1 else tuple(values)


def initialized() -> Any:
    """The driver bindings, ready for use.

    Raises DeviceError where there is no driver, or WS0609 one that is older than what NVRTC makes.
    """
    try:
        return _initialize()
    except (ImportError, RuntimeError) as missing:
        raise DeviceError(f"no CUDA driver: {missing}", remedy=_NO_DEVICE) from missing
    except DeviceError as refusal:
        remedy = refusal.remedy or _NO_DEVICE
        raise DeviceError(refusal.message, code=refusal.code, remedy=remedy) from refusal


def device_count() -> int:
    """How many GPUs this process can use; 0 where there is no driver, or one that is too old.

    That one is warned of, since there may be a GPU.
    """
    try:
        count: int = check(initialized().cuDeviceGetCount())
    except DeviceError as refusal:
        if refusal.code == TOO_OLD:
            _warn_once(f"no GPU can be used: {refusal}")
        return 0
    return count


def why_no_device() -> str:
    """What stands in the way of a GPU, in words."""
    try:
        count = check(initialized().cuDeviceGetCount())
    except DeviceError as refusal:
        return refusal.message
    return f"this process sees {count} of them (CUDA_VISIBLE_DEVICES may hide some)"


def memory_info() -> tuple[int, int]:
    """Bytes of the current device that are free, and all that it has."""
    free, total = check(initialized().cuMemGetInfo())
    return int(free), int(total)


@contextmanager
def in_context(ordinal: int) -> Iterator[Any]:
    """A context of device `ordinal` is current in this thread; what was before is current after it,
    so that PyTorch's choice of a device stays.

    One of the device that is current already is it, so that work lands where PyTorch's does; else
    the primary context, which PyTorch and the CUDA runtime share.
    """
    driver = initialized()
    present = check(driver.cuCtxGetCurrent())
    if int(present) and int(check(driver.cuCtxGetDevice())) == ordinal:
        yield present
        return
    primary = _primary_context(ordinal)
    check(driver.cuCtxPushCurrent(primary))
    try:
        yield primary
    finally:
        check(driver.cuCtxPopCurrent())


@cache
def device_properties(ordinal: int) -> DeviceProperties:
    """The properties of device `ordinal`. Raises DeviceError where there is no such device."""
    driver = initialized()
    device = _device(ordinal)
    kinds = driver.CUdevice_attribute

    def attribute(name: str) -> int:
        kind = getattr(kinds, f"CU_DEVICE_ATTRIBUTE_{name}")
        value: int = check(driver.cuDeviceGetAttribute(kind, device))
        return value

    name: bytes = check(driver.cuDeviceGetName(256, device))
    return DeviceProperties(
        name=name.split(b"\0")[0].decode().strip(),
        compute_capability=(
            attribute("COMPUTE_CAPABILITY_MAJOR"),
            attribute("COMPUTE_CAPABILITY_MINOR"),
        ),
        sm_count=attribute("MULTIPROCESSOR_COUNT"),
        shared_bytes_per_block_optin=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        shared_bytes_per_sm=attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        registers_per_sm=attribute("MAX_REGISTERS_PER_MULTIPROCESSOR"),
        max_threads_per_sm=attribute("MAX_THREADS_PER_MULTIPROCESSOR"),
        l2_bytes=attribute("L2_CACHE_SIZE"),
        # Two transfers a cycle: kilohertz times bits, to bytes a microsecond.
        memory_bytes_per_us=2
        * attribute("MEMORY_CLOCK_RATE")
        * attribute("GLOBAL_MEMORY_BUS_WIDTH")
        // 8000,
    )


@cache
def _initialize() -> Any:
    # Imported late: the bindings take tens of milliseconds. A failure is not cached.
    from cuda.bindings import driver

    check(driver.cuInit(0))
    check_version(check(driver.cuDriverGetVersion()))
    return driver


def check_version(version: int) -> None:
    """Raise DeviceError for a driver that is older than the CUDA that kernels are compiled by.

    Args:
        version: of CUDA that the driver is for: 1000 times the major, and 10 times the minor.
    """
    if version < _LEAST_VERSION:
        raise DeviceError(
            f"the NVIDIA driver is for CUDA {version // 1000}.{version % 1000 // 10}, and kernels "
            f"are compiled by CUDA {_LEAST_VERSION // 1000}",
            code=TOO_OLD,
            remedy="install a driver of release 580 or later, or set WARPSMITH_DEVICE=sim",
        )


@cache
def _warn_once(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=4)


@cache
def _primary_context(ordinal: int) -> Any:
    """Retained once and never released: kernels loaded into it live as long as the process."""
    return check(initialized().cuDevicePrimaryCtxRetain(_device(ordinal)))


def _device(ordinal: int) -> Any:
    driver = initialized()
    count = check(driver.cuDeviceGetCount())
    if not 0 <= ordinal < count:
        raise DeviceError(
            f"there is no GPU {ordinal}: this process sees {count}",
            remedy="use a smaller ordinal, or look at CUDA_VISIBLE_DEVICES",
        )
    return check(driver.cuDeviceGet(ordinal))


def _described(status: Any) -> str:
    """`CUDA_ERROR_INVALID_VALUE (invalid argument)`."""
    from cuda.bindings import driver

    try:
        known, text = driver.cuGetErrorString(status)
    except RuntimeError:  # no driver, so nothing to ask
        known, text = status, None
    return f"{status.name} ({text.decode()})" if known == 0 else str(status.name)
