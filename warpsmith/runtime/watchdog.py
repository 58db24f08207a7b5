"""What a kernel that gave up a wait left behind, in memory that outlives its context."""

from __future__ import annotations

import ctypes

from warpsmith.runtime.driver import check, in_context, initialized
from warpsmith.runtime.launch import LoadedKernel
from warpsmith.values import dataclass

POINTER = "ws_watchdog"
"""The variable of a module that holds the address of the record."""


class _Layout(ctypes.Structure):
    """`ws_watchdog_record` of the prelude."""

    _fields_ = (
        ("waited", ctypes.c_uint64),
        ("written", ctypes.c_int32),
        ("site", ctypes.c_int32),
        ("stage", ctypes.c_int32),
        ("parity", ctypes.c_int32),
        ("x", ctypes.c_int32),
        ("y", ctypes.c_int32),
        ("z", ctypes.c_int32),
        ("thread", ctypes.c_int32),
    )


RECORD_BYTES = ctypes.sizeof(_Layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A wait that was given up.

    Attributes:
        site: number of the wait in the kernel.
        stage: of the ring.
        parity: of the phase that was waited for.
        block: index (x, y, z) in the grid.
        thread: linear index in the block.
        seconds: that the wait had lasted.
    """

    site: int
    stage: int
    parity: int
    block: tuple[int, int, int]
    thread: int
    seconds: float

    @staticmethod
    def read(content: bytes) -> Record | None:
        """The record in `RECORD_BYTES` bytes, or None where no kernel has written one."""
        found = _Layout.from_buffer_copy(content)
        if not found.written:
            return None
        return Record(
            site=found.site,
            stage=found.stage,
            parity=found.parity,
            block=(found.x, found.y, found.z),
            thread=found.thread,
            seconds=found.waited / 1e9,
        )


class Watchdog:
    """The record of one loaded kernel: pinned memory of the host that the kernel writes to.

    A kernel that traps takes its context with it, and all memory of the device; this memory can
    still be read. It is freed when the kernel is unloaded.

    Raises DeviceError where the memory cannot be had, or the kernel has no place for its address.
    """

    def __init__(self, kernel: LoadedKernel) -> None:
        self._driver = driver = initialized()
        flags = driver.CU_MEMHOSTALLOC_PORTABLE | driver.CU_MEMHOSTALLOC_DEVICEMAP
        with in_context(kernel.ordinal) as self._context:
            self._host = int(check(driver.cuMemHostAlloc(RECORD_BYTES, flags)))
            kernel.residence.host_memory.append(self._host)
            ctypes.memset(self._host, 0, RECORD_BYTES)
            address = int(check(driver.cuMemHostGetDevicePointer(self._host, 0)))
            place, _ = check(driver.cuModuleGetGlobal(kernel.residence.module, POINTER.encode()))
            pointer = ctypes.c_uint64(address)
            check(driver.cuMemcpyHtoD(place, ctypes.addressof(pointer), ctypes.sizeof(pointer)))

    def wait(self, stream: int) -> None:
        """Wait for all work on `stream`, but not where it is only being captured for a graph.

        Raises DeviceError when the work failed.
        """
        driver = self._driver
        handle = driver.CUstream(stream)
        check(driver.cuCtxPushCurrent(self._context))
        try:
            status = check(driver.cuStreamIsCapturing(handle))
            if status == driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE:
                check(driver.cuStreamSynchronize(handle))
        finally:
            driver.cuCtxPopCurrent()

    @property
    def record(self) -> Record | None:
        """What the kernel wrote, in this launch or an earlier one; None if nothing."""
        return Record.read(ctypes.string_at(self._host, RECORD_BYTES))
