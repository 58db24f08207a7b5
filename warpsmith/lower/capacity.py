"""Whether a kernel's threads and shared memory fit a block."""

from __future__ import annotations

from math import prod

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.fusion import Fusion
from warpsmith.kernel.nodes import Kernel

SHARED_LIMIT = 232_448
"""Bytes of shared memory that a block may have on 9.0 (CUDA programming guide)."""

THREAD_LIMIT = 1024
THREADS_ALONG = (1024, 1024, 64)
"""Threads of a block, and along its x, y and z (CUDA programming guide)."""


def check_threads(kernel: Kernel) -> None:
    """Refuse more threads than a block can have, where their number is known."""
    known = [integers.constant(extent) or 1 for extent in kernel.launch.block]
    for axis, extent, most in zip("xyz", known, THREADS_ALONG, strict=True):
        if extent > most:
            raise ScheduleError(
                f"a block would have {extent} threads along block_{axis}, and it may have {most}",
                code="WS1102",
                remedy=f"split the loop that is bound to block_{axis} by {most} or less",
            )
    if prod(known) > THREAD_LIMIT:
        raise ScheduleError(
            f"a block would have {' x '.join(map(str, known))} = {prod(known)} threads, and it may "
            f"have {THREAD_LIMIT}",
            code="WS1102",
            remedy="split the loops that are bound to the block by less",
        )


def check_shared(fusion: Fusion, kernel: Kernel) -> None:
    """Refuse more shared memory than a block can have, and say how many stages would fit."""
    sizes = {
        buffer.name: (integers.constant(buffer.size) or 0) * buffer.dtype.size
        for buffer in kernel.shared
    }
    ends = [start + sizes[name] for name, start in kernel.offsets]
    total = max(ends, default=0) + sum(sizes.values()) - sum(sizes[n] for n, _ in kernel.offsets)
    if total <= SHARED_LIMIT:
        return
    rings = {
        tensor.name: tensor.buffering.stages
        for tensor in fusion.tensors
        if tensor.buffering is not None and tensor.memory is MemoryType.shared
    }
    a_stage = sum(sizes[name] // stages for name, stages in rings.items() if name in sizes)
    rest = total - sum(sizes[name] for name in rings if name in sizes)
    fitting = (SHARED_LIMIT - rest) // a_stage if a_stage else 0
    listing = ", ".join(f"{name} {size}" for name, size in sizes.items())
    remedy = "make the tiles smaller"
    names = " and ".join(rings)
    if kernel.offsets and rings:  # which of them are alive together may change with their sizes
        remedy = f"use circular buffers of fewer stages for {names}, or smaller tiles"
    elif fitting >= 2:
        remedy = f"use circular buffers of {fitting} stages at most for {names}, or smaller tiles"
    raise ScheduleError(
        f"a block would need {total} bytes of shared memory ({listing}), and it may have "
        f"{SHARED_LIMIT}",
        code="WS0256",
        remedy=remedy,
    )
