"""Kernel arguments in the form that the driver takes: values in memory, and a list of addresses."""

from __future__ import annotations

import ctypes
import struct
import threading
from typing import Any

from warpsmith.errors import ArgumentError, InternalError

# Bytes that each argument owns. All are aligned to it, so every type below is aligned too.
_SLOT = 8

_MEANINGS = {
    "P": "a pointer",
    "q": "a 64-bit integer",
    "Q": "an unsigned 64-bit integer",
    "i": "a 32-bit integer",
    "I": "an unsigned 32-bit integer",
    "f": "a float",
    "d": "a double",
    "e": "a half",
    "?": "a bool",
}


class ArgumentBuffer(threading.local):
    """The arguments of one kernel, packed again for each launch.

    `formats` has one letter an argument, as in `struct`: P pointer, q/Q and i/I (un)signed 64- and
    32-bit integers, f float, d double, e half, ? bool.

    Each thread has its own storage behind the one object (that is what `threading.local` does), so
    threads that share a kernel do not overwrite each other between `set` and the launch. The
    driver copies the values before a launch returns, so one storage a thread is enough.
    """

    def __init__(self, formats: str) -> None:
        unknown = sorted(set(formats) - set(_MEANINGS))
        if unknown:
            raise InternalError(f"no argument format {unknown[0]!r} in {formats!r}")
        padded = (code + "x" * (_SLOT - struct.calcsize(code)) for code in formats)
        self.formats = formats
        self._storage = ctypes.create_string_buffer(max(_SLOT * len(formats), _SLOT))
        start = ctypes.addressof(self._storage)
        slots = [start + _SLOT * index for index in range(len(formats))]
        self._pointers = (ctypes.c_void_p * max(len(slots), 1))(*slots)
        self._pack_into = struct.Struct("@" + "".join(padded)).pack_into
        self.address = ctypes.addressof(self._pointers)
        """Address of the `void*[]` that holds the address of each argument."""

    def set(self, values: tuple[Any, ...]) -> None:
        """Pack one value an argument, in this thread's storage.

        Raises ArgumentError for a value that does not fit its format, or a wrong number of them.
        """
        try:
            self._pack_into(self._storage, 0, *values)
        except (struct.error, OverflowError, TypeError) as misfit:
            raise ArgumentError(self._misfit(values, misfit)) from None

    def bytes(self) -> bytes:
        """The packed values of this thread, 8 bytes an argument."""
        return self._storage.raw[: _SLOT * len(self.formats)]

    def _misfit(self, values: tuple[Any, ...], misfit: Exception) -> str:
        if len(values) != len(self.formats):
            return f"the kernel takes {len(self.formats)} arguments, not {len(values)}"
        for index, (code, value) in enumerate(zip(self.formats, values, strict=True)):
            try:
                struct.pack(code, value)
            except (struct.error, OverflowError, TypeError):
                return f"kernel argument {index} is {_MEANINGS[code]}, not {value!r}"
        return f"the kernel arguments do not fit {self.formats!r}: {misfit}"
