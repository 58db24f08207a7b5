"""Kernel arguments in the form that the driver takes: values in memory, and a list of addresses."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable
from typing import Any

from warpsmith.errors import ArgumentError, InternalError
from warpsmith.runtime.tensor_maps import MAP_BYTES

# Bytes that each argument owns. All are aligned to it, so every type below is aligned too, but for
# tensor maps, which are larger and aligned to more.
_SLOT = 8
_MAP_ALIGNMENT = 64

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
    "T": "a tensor map of 128 bytes",
}


class ArgumentBuffer(threading.local):
    """The arguments of one kernel, packed again for each launch.

    `formats` has one letter an argument, as in `struct`: P pointer, q/Q and i/I (un)signed 64- and
    32-bit integers, f float, d double, e half, ? bool; and T a tensor map, as `bytes`.

    Each thread has its own storage behind the one object (that is what `threading.local` does), so
    threads that share a kernel do not overwrite each other between `set` and the launch. The
    driver copies the values before a launch returns, so one storage a thread is enough.
    """

    def __init__(self, formats: str) -> None:
        unknown = sorted(set(formats) - set(_MEANINGS))
        if unknown:
            raise InternalError(f"no argument format {unknown[0]!r} in {formats!r}")
        self.formats = formats
        layout, offsets, size = _laid_out(formats)
        self._storage = _aligned(max(size, _SLOT), _MAP_ALIGNMENT if "T" in formats else _SLOT)
        start = ctypes.addressof(self._storage)
        slots = [start + offset for offset in offsets]
        self._pointers = (ctypes.c_void_p * max(len(slots), 1))(*slots)
        self._size = size
        pack_into = struct.Struct(layout).pack_into
        self._pack_into = _with_whole_maps(formats, pack_into) if "T" in formats else pack_into
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
        """The packed values of this thread: 8 bytes an argument, 128 at multiples of 64 a map."""
        return ctypes.string_at(self._storage, self._size)

    def _misfit(self, values: tuple[Any, ...], misfit: Exception) -> str:
        if len(values) != len(self.formats):
            return f"the kernel takes {len(self.formats)} arguments, not {len(values)}"
        for index, (code, value) in enumerate(zip(self.formats, values, strict=True)):
            if code == "T":
                if not (isinstance(value, bytes | bytearray) and len(value) == MAP_BYTES):
                    return f"kernel argument {index} is {_MEANINGS[code]}, not {value!r}"
                continue
            try:
                struct.pack(code, value)
            except (struct.error, OverflowError, TypeError):
                return f"kernel argument {index} is {_MEANINGS[code]}, not {value!r}"
        return f"the kernel arguments do not fit {self.formats!r}: {misfit}"


def _laid_out(formats: str) -> tuple[str, list[int], int]:
    """A format of `struct` for all arguments, the offset of each, and bytes in all."""
    layout, offsets, end = "@", [], 0
    for code in formats:
        is_map = code == "T"
        gap = -end % (_MAP_ALIGNMENT if is_map else _SLOT)
        size = MAP_BYTES if is_map else _SLOT
        offsets.append(end + gap)
        end += gap + size
        filler = 0 if is_map else _SLOT - struct.calcsize(code)
        layout += "x" * gap + (f"{MAP_BYTES}s" if is_map else code) + "x" * filler
    return layout, offsets, end


def _aligned(size: int, alignment: int) -> ctypes.Array[ctypes.c_char]:
    """Zeroed memory at a multiple of `alignment` bytes; it keeps alive what it is a part of."""
    whole = ctypes.create_string_buffer(size + alignment)
    lead = -ctypes.addressof(whole) % alignment
    return (ctypes.c_char * size).from_buffer(whole, lead)


def _with_whole_maps(formats: str, pack_into: Callable[..., None]) -> Callable[..., None]:
    """`pack_into` that refuses what `struct` would cut or fill up to the bytes of a map."""
    maps = [index for index, code in enumerate(formats) if code == "T"]

    def checked(storage: object, offset: int, *values: Any) -> None:
        pack_into(storage, offset, *values)
        for index in maps:
            if len(values[index]) != MAP_BYTES:
                raise TypeError("a tensor map is not whole")

    return checked
