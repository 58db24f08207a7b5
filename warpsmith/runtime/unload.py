"""Kernels that nobody launches any more, taken off their device.

The last reference to a kernel may go in any thread and at any time: while a launch of it runs, or
while a stream is captured. So it is only noted here then. It is unloaded when the next kernel is
loaded, which may wait for the device as well.
"""

from __future__ import annotations

from collections import deque
from dataclasses import field
from typing import Any

from warpsmith.values import dataclass

_GONE = ("CUDA_ERROR_INVALID_HANDLE", "CUDA_ERROR_CONTEXT_IS_DESTROYED")
"""What the driver says of a stream that was destroyed: nothing runs there any more."""


@dataclass(slots=True)
class Residence:
    """A module on a device, and what has to be over before it can be unloaded.

    Attributes:
        driver: the bindings.
        context, module: the driver's.
        streams: all that it was launched on, as integers.
        captured: a graph was captured that may launch it at any time, so it stays for good.
        host_memory: addresses of pinned memory that goes with it.
    """

    driver: Any
    context: Any
    module: Any
    streams: set[int] = field(default_factory=set)
    captured: bool = False
    host_memory: list[int] = field(default_factory=list)


_LEFT: deque[Residence] = deque()


def leave(residence: Residence) -> None:
    """Note that nobody can launch from the module any more. Takes no lock, and calls no driver."""
    if not residence.captured:
        _LEFT.append(residence)


def unload_left() -> None:
    """Unload what was left, once its launches are over; what a capture forbids is tried later."""
    for _ in range(len(_LEFT)):
        try:
            residence = _LEFT.popleft()
        except IndexError:  # another thread was faster
            return
        if not _unloaded(residence):
            _LEFT.append(residence)


def _unloaded(residence: Residence) -> bool:
    driver = residence.driver
    driver.cuCtxPushCurrent(residence.context)
    # What other threads capture is not touched by this, so it need not be forbidden here.
    relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    _, before = driver.cuThreadExchangeStreamCaptureMode(relaxed)
    try:
        if not all(_idle(driver, stream) for stream in residence.streams):
            return False
        driver.cuModuleUnload(residence.module)
        for address in residence.host_memory:
            driver.cuMemFreeHost(address)
        return True
    finally:
        driver.cuThreadExchangeStreamCaptureMode(before)
        driver.cuCtxPopCurrent()


def _idle(driver: Any, stream: int) -> bool:
    """Wait for a stream. False where it is captured, so that it cannot be waited for."""
    handle = driver.CUstream(stream)
    status, capture = driver.cuStreamIsCapturing(handle)
    if status.name in _GONE:
        return True
    free = driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE
    if status != 0 or capture != free:
        return False
    driver.cuStreamSynchronize(handle)
    return True
