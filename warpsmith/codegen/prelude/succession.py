"""Kernels of one stream that overlap."""

from __future__ import annotations

from warpsmith.codegen.prelude.piece import Piece

_AWAIT_PREVIOUS = """
// The kernel before this one is over, and what it wrote is there.
__device__ __forceinline__ void ws_await_previous() {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}
"""

_ADMIT_NEXT = """
// The next kernel may start, if it was launched early, once all blocks of this one have come here.
__device__ __forceinline__ void ws_admit_next() {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
"""

SUCCESSION = (
    Piece(name="await_previous", text=_AWAIT_PREVIOUS),
    Piece(name="admit_next", text=_ADMIT_NEXT),
)
