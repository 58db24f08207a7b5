"""Memory that a compile leaves behind in the C heap, given back to the system.

glibc gives each thread a heap of its own, and keeps what is freed at the end of one up to a
threshold, which rises to 64 MiB once a program has freed a large block; `malloc_trim`, which
returns free pages elsewhere, does not reach it. NVRTC and the proofs of kernels take tens of MiB
for a moment, in many threads.
"""

from __future__ import annotations

import ctypes
import mmap
from functools import cache

_PIECE = 120 << 10
"""Bytes: less than what `malloc` ever maps apart from its heaps."""

_HEAP = 64 << 20
"""Bytes of one heap of a thread, at most."""

_DONTNEED = mmap.MADV_DONTNEED if hasattr(mmap, "MADV_DONTNEED") else 0


def give_back() -> None:
    """Return to the system the pages of this thread's heap that are free in large pieces.

    It takes as much from the heap as all heaps have free, and a heap can hold, says that no page of
    it is needed, and frees it again. What is allocated later has its pages then. Nothing happens
    where the C library is not glibc.
    """
    libc = _glibc()
    if libc is None:
        return
    page = mmap.PAGESIZE
    free = libc.mallinfo2().free if hasattr(libc, "mallinfo2") else _HEAP
    pieces = [libc.malloc(_PIECE) for _ in range(min(free, _HEAP) // _PIECE)]
    for piece in pieces:
        if piece:
            start = -(-piece // page) * page
            libc.madvise(start, (piece + _PIECE) // page * page - start, _DONTNEED)
    for piece in pieces:
        libc.free(piece)


def trim() -> None:
    """Return to the system the free pages inside the heaps of all threads: tens of milliseconds.

    What many threads allocated for kernels lies between what lives longer.
    """
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)


class _Info(ctypes.Structure):
    """`struct mallinfo2` of glibc 2.33 and later: bytes of all heaps together."""

    _fields_ = (
        ("before", ctypes.c_size_t * 8),
        ("free", ctypes.c_size_t),
        ("end", ctypes.c_size_t),
    )


@cache
def _glibc() -> ctypes.PyDLL | None:
    """The C library, None where it is another one. Calls keep Python's lock: each is short."""
    try:
        libc = ctypes.PyDLL(None)
        libc.gnu_get_libc_version  # noqa: B018  # only glibc has it
    except (AttributeError, OSError, TypeError):
        return None
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    libc.free.restype, libc.free.argtypes = None, (ctypes.c_void_p,)
    libc.malloc_trim.argtypes = (ctypes.c_size_t,)
    if hasattr(libc, "mallinfo2"):
        libc.mallinfo2.restype = _Info
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return libc
