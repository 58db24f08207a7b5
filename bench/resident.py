"""What the memory that a process holds consists of."""

from __future__ import annotations

import ctypes
import os
import re
import sys
import tempfile
from dataclasses import dataclass

MIB = 1 << 20
_PIECES = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks")


class _Heaps(ctypes.Structure):
    """The answer of glibc's `mallinfo2`, over all heaps."""

    _fields_ = [(name, ctypes.c_size_t) for name in (*_PIECES, "fordblks", "keepcost")]


@dataclass(frozen=True, slots=True)
class Resident:
    """Bytes that a process holds.

    Attributes:
        total: all that is resident.
        files: of libraries and other files that are mapped, and of what is shared with devices.
        python: of live objects up to 512 bytes, which Python's own allocator serves.
        spare: of that allocator's memory, in which no object is.
        heap: live in the C heap: larger objects, and what libraries hold.
        freed: all else: freed in the C heap and kept there, and stacks of threads. Too little where
            live memory was never touched.
        objects: blocks of Python's own allocator that are in use.
    """

    total: int
    files: int
    python: int
    spare: int
    heap: int
    freed: int
    objects: int

    @classmethod
    def now(cls) -> Resident:
        """Of this process. Standard error goes elsewhere for a moment."""
        total, shared = _pages()
        live, arenas = _python()
        heap = _heap()
        freed = max(total - shared - arenas - heap, 0)
        return cls(total, shared, live, arenas - live, heap, freed, sys.getallocatedblocks())

    def __str__(self) -> str:
        return (
            f"process {self.total / MIB:.0f} MiB: files {self.files / MIB:.0f}, Python's objects "
            f"{self.python / MIB:.0f} ({self.objects} of them) and room for more "
            f"{self.spare / MIB:.0f}, C heap live {self.heap / MIB:.0f}, freed and not returned, "
            f"with stacks, {self.freed / MIB:.0f}"
        )


def resident_bytes() -> int:
    """What the process holds in memory."""
    return _pages()[0]


def trim() -> None:
    """Have glibc return what it can of all heaps; large pieces at their ends stay."""
    ctypes.CDLL(None).malloc_trim(0)


def own_bytes() -> int:
    """The same without files that are mapped."""
    total, files = _pages()
    return total - files


def _pages() -> tuple[int, int]:
    """Bytes that are resident, and what of them is of files."""
    with open("/proc/self/statm") as file:
        _, resident, shared, *_ = file.read().split()
    page = os.sysconf("SC_PAGE_SIZE")
    return int(resident) * page, int(shared) * page


def _heap() -> int:
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = _Heaps
    found = libc.mallinfo2()
    return int(found.uordblks + found.hblkhd)


def _python() -> tuple[int, int]:
    """Bytes in live blocks of Python's own allocator, and all that it holds, by its own report,
    which goes to standard error.
    """
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            sys._debugmallocstats()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        text = file.read().decode()
    live = re.search(r"# bytes in allocated blocks += +([\d,]+)", text)
    arenas = re.search(r"arenas \* \d+ bytes/arena += +([\d,]+)", text)
    assert live, text
    assert arenas, text
    return int(live[1].replace(",", "")), int(arenas[1].replace(",", ""))
