"""How a tensor's copy moves, and how many stages it moves through."""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from warpsmith.values import dataclass

CHUNK_BYTES = 16
"""What the TMA unit moves: addresses and sizes of its copies are multiples of so many bytes."""

LINE_BYTES = 128
"""What it asks of memory, and writes to shared memory, at a time. A copy that begins as far behind
such a line in one as in the other takes half as many steps as one that does not."""


def line_spare(size: int, *, chunks: bool) -> int:
    """Elements of so many bytes that may lie beside a copy in the lines that hold it: before it,
    and behind it where it brings whole `chunks`.
    """
    before = LINE_BYTES - (size if chunks else CHUNK_BYTES)
    return (before + (CHUNK_BYTES - size if chunks else 0)) // size


class LoadStoreOpType(Enum):
    """What carries a copy between global memory, shared memory and registers.

    Names follow nvFuser's Python; `bulk` is its CpAsyncBulk, which it keeps to C++.
    """

    set = "set"
    """Loads and stores of the threads, through registers."""

    cp_async = "cp.async"
    """Global to shared memory, asynchronously, each thread its own 4, 8 or 16 bytes."""

    bulk = "bulk"
    """Contiguous bytes between global and shared memory, by the TMA unit, for one thread's ask."""

    tma = "tma"
    """A box of up to five dimensions between global and shared memory, by the TMA unit."""

    stmatrix = "stmatrix"
    """Registers to shared memory, 8 x 8 matrices of 16-bit elements at a time, by whole warps."""

    @property
    def loads(self) -> bool:
        """Whether the copy is one from global memory that something other than a thread's own
        registers carries, when it is not one to an output."""
        return self in (LoadStoreOpType.cp_async, LoadStoreOpType.bulk, LoadStoreOpType.tma)

    @property
    def is_tma(self) -> bool:
        """Whether one thread asks for the copy of all."""
        return self in (LoadStoreOpType.bulk, LoadStoreOpType.tma)


class CacheOp(Enum):
    """Which caches keep what a load read. Names follow nvFuser's Python."""

    unspecified = "unspecified"
    all_levels = "ca"
    streaming = "cs"
    global_ = "cg"


@dataclass(frozen=True, slots=True)
class CircularBuffer:
    """The stages of one tensor, and how far its loads run ahead.

    Attributes:
        stages: 2 or more.
        prefetch: iterations that loads are ahead of their use, 0 to stages - 1.
        ring: tensors of one loop with equal stages and prefetch share barriers if this is equal.
        slice_position: loops of the tensor that stand outside a stage; None lets its inlining say.
        interval: nanoseconds for each load, none of which begins before its time; 0 where stages
            alone say when.
        where: the line of Python that asked for the stages, as `model.py:12`; empty if unknown.
    """

    stages: int
    prefetch: int
    ring: str = ""
    slice_position: int | None = None
    interval: int = 0
    where: str = field(default="", compare=False)
