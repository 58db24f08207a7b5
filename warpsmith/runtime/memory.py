"""Device memory for arrays that live on the host, where there is no PyTorch to allocate it."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import numpy as np

from warpsmith.runtime.driver import check, ensure_context, initialized

# The driver aligns allocations to at least this; copies keep the host address's remainder by it.
_ALIGNMENT = 256


class DeviceMemory:
    """Allocations on one device, freed together at the end of a `with` block.

    Copies are synchronous. Raises DeviceError when there is no device, or not enough memory.

    Example:
        with DeviceMemory(0) as memory:
            x, y = memory.upload(a), memory.upload(b)
            ...launch...
            memory.download(y, b)
    """

    def __init__(self, ordinal: int) -> None:
        self._driver = initialized()
        self.ordinal = ordinal
        self._allocations: list[int] = []
        ensure_context(ordinal)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._allocations:
            self._driver.cuMemFree(self._allocations.pop())

    def allocate(self, byte_count: int) -> int:
        """Address of `byte_count` uninitialized bytes, aligned to 256."""
        address = int(check(self._driver.cuMemAlloc(max(byte_count, 1))))
        self._allocations.append(address)
        return address

    def upload(self, array: np.ndarray) -> int:
        """Copy an array with its strides and gaps; the device address of its first element.

        The address is aligned as the host's is, so what was decided from one holds for the other.
        """
        low, byte_count = span(array)
        host: int = array.__array_interface__["data"][0] + low
        remainder = host % _ALIGNMENT
        device = self.allocate(byte_count + remainder) + remainder
        if byte_count:
            check(self._driver.cuMemcpyHtoD(device, host, byte_count))
        return device - low

    def download(self, device: int, array: np.ndarray) -> None:
        """Copy into an array, with its gaps, from the address that `upload` gave for it."""
        low, byte_count = span(array)
        if byte_count:
            host: int = array.__array_interface__["data"][0] + low
            check(self._driver.cuMemcpyDtoH(host, device + low, byte_count))


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
