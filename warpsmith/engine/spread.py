"""Shared memory by which the blocks of a kernel that starts early spread over the GPU.

They start where blocks of the kernel before them have ended. The first multiprocessors to be free
would take as many as they hold, so that a few load what all could: 128 blocks of 64 threads and
110 registers fit on 15 of 132 (docs/lessons/norms.md). Blocks that ask for more shared memory than
they use leave a multiprocessor room for its share of them only.
"""

from __future__ import annotations

SM_SHARED = 233_472
"""Bytes of shared memory of a multiprocessor on 9.0 and 10.0 (CUDA programming guide)."""

TAKEN, GRANULE = 1024, 128
"""Bytes that the driver takes of each block's, and by which shared memory is given out."""

MOST_SHARE = 3
"""Blocks a multiprocessor up to which they are spread: more are enough to fill all of them."""


def reserved_bytes(shared_bytes: int, blocks: int, sm_count: int) -> int:
    """What each block asks for, so that a multiprocessor holds no more than its share of them.

    Args:
        shared_bytes: what a block uses; no less is asked for.
        blocks: of the whole grid.
        sm_count: multiprocessors of the device.
    """
    share = -(-blocks // sm_count)
    if share > MOST_SHARE:
        return shared_bytes
    return max(shared_bytes, SM_SHARED // (share + 1) // GRANULE * GRANULE + GRANULE - TAKEN)
