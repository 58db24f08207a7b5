"""Indices that memory says (`ir/reads.py`)."""

from __future__ import annotations

from warpsmith.codegen.prelude.piece import Piece

_PLACES = """
// An index that lies inside an extent; there is no element elsewhere, and the kernel ends.
template <typename I>
__device__ __forceinline__ I ws_place(long long index, I extent) {
    if ((unsigned long long)index >= (unsigned long long)extent) asm volatile("trap;");
    return (I)index;
}

// The same, where negative indices count from the end.
template <typename I>
__device__ __forceinline__ I ws_place_from_end(long long index, I extent) {
    return ws_place<I>(index < 0 ? index + extent : index, extent);
}
"""

PLACES = (Piece(name="places", text=_PLACES),)
"""Prelude pieces of reads at computed places."""
