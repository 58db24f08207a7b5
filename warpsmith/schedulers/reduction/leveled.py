"""Long rows that are reduced to a level and sums at it, as online softmax does."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.ir.levels import has_levels
from warpsmith.ir.tensor import TensorView

LEVEL_THREADS, LEVEL_ACCESSES = 1536, 4
"""Threads of a multiprocessor, and accesses of each: a thread takes 40 registers then, and all of
its loads stand before the first is used. With 8 accesses and 64 registers ptxas has loads wait for
what others brought, and takes what is masked one load after the other (NVRTC 13.0)."""

NARROW_BYTES, NARROW_ACCESSES = 4, 12
"""Of an access of which a warp's counts as a line, and how many of them such threads have: 74 KB
asked for at once (docs/lessons/row_lengths.md)."""


def accesses(vector: int, sizes: Sequence[int]) -> int:
    """Accesses of a thread, of so many elements of inputs whose elements have such sizes."""
    return NARROW_ACCESSES if vector * max(sizes, default=4) <= NARROW_BYTES else LEVEL_ACCESSES


def counted_states(reduced: Sequence[TensorView]) -> int:
    """How many of the reductions have states that take many registers: not those that all lanes of
    a thread share, unless they are of doubles.
    """
    few = (has_levels(tensor.definition) and tensor.dtype.size <= 4 for tensor in reduced)
    return len(reduced) - sum(few)
