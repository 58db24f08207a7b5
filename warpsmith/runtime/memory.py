"""Memory for arrays of the host, there and on a device, without PyTorch."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Protocol, Self

import numpy as np

from warpsmith.errors import DeviceError
from warpsmith.runtime.arrays import NUMPY_DTYPES, empty
from warpsmith.runtime.driver import check, in_context, initialized, memory_info

# The driver aligns allocations to at least this; copies keep the host address's remainder by it.
_ALIGNMENT = 256


class _Wanted(Protocol):
    """An array that is to be made; strides count elements."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...] | None: ...


class DeviceMemory:
    """Allocations on one device, freed together at the end of a `with` block.

    Copies are synchronous. Raises DeviceError when there is no device, or not enough memory.

    Example:
        with DeviceMemory(0) as memory:
            x, y = memory.upload(a, "x"), memory.upload(b, "y")
            ...launch...
            memory.download(y, b)
    """

    def __init__(self, ordinal: int) -> None:
        self._driver = initialized()
        self.ordinal = ordinal
        self._allocations: list[int] = []
        self._context = ExitStack()

    def __enter__(self) -> Self:
        self._context.enter_context(in_context(self.ordinal))
        return self

    def __exit__(self, *exception: object) -> None:
        while self._allocations:
            self._driver.cuMemFree(self._allocations.pop())
        self._context.close()

    def allocate(self, byte_count: int, what: str) -> int:
        """Address of `byte_count` uninitialized bytes for `what`, aligned to 256."""
        status, address = self._driver.cuMemAlloc(max(byte_count, 1))
        if status == self._driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            raise no_room(what, byte_count, f"GPU {self.ordinal}", *memory_info())
        self._allocations.append(int(check((status, address))))
        return self._allocations[-1]

    def upload(self, array: np.ndarray, what: str) -> int:
        """Copy an array with its strides and gaps; the device address of its first element.

        The address is aligned as the host's is, so what was decided from one holds for the other.
        """
        low, byte_count = span(array)
        host: int = array.__array_interface__["data"][0] + low
        remainder = host % _ALIGNMENT
        device = self.allocate(byte_count + remainder, what) + remainder
        if byte_count:
            check(self._driver.cuMemcpyHtoD(device, host, byte_count))
        return device - low

    def download(self, device: int, array: np.ndarray) -> None:
        """Copy into an array, with its gaps, from the address that `upload` gave for it."""
        low, byte_count = span(array)
        if byte_count:
            host: int = array.__array_interface__["data"][0] + low
            check(self._driver.cuMemcpyDtoH(host, device + low, byte_count))


def host_arrays(wanted: Iterable[_Wanted]) -> dict[str, np.ndarray]:
    """Undefined arrays of the host by name. Raises DeviceError (WS0607) where one fits nowhere."""
    made: dict[str, np.ndarray] = {}
    for each in wanted:
        byte_count = math.prod(each.shape) * NUMPY_DTYPES[each.dtype].itemsize
        page = os.sysconf("SC_PAGE_SIZE")
        free, total = (os.sysconf(f"SC_{kind}_PAGES") * page for kind in ("AVPHYS", "PHYS"))
        try:
            if byte_count > total:  # the system may promise it, and end the process later
                raise MemoryError
            made[each.name] = empty(each.shape, each.dtype, kind="numpy", strides=each.strides)
        except (MemoryError, ValueError):
            raise no_room(each.name, byte_count, "this machine", free, total) from None
    return made


def no_room(what: str, byte_count: int, place: str, free: int, total: int) -> DeviceError:
    """What is raised where `byte_count` bytes for `what` cannot be had.

    Args:
        place: whose memory it is.
        free, total: bytes of it.
    """
    never = byte_count > total
    return DeviceError(
        f"{what} takes {byte_count:,} bytes, and {place} has {free:,} free of {total:,}",
        code="WS0607",
        remedy=("it can never fit: " if never else "let go of tensors first, or ")
        + "pass smaller tensors, or parts of them one after the other",
    )


def span(array: np.ndarray) -> tuple[int, int]:
    """Bytes from an array's first element to its lowest one (<= 0), and bytes that it spans."""
    if array.size == 0:
        return 0, 0
    reach = [
        (extent - 1) * stride for extent, stride in zip(array.shape, array.strides, strict=True)
    ]
    low = sum(step for step in reach if step < 0)
    high = sum(step for step in reach if step > 0)
    return low, high - low + array.itemsize
