"""Shared memory by which the blocks of a kernel that starts early spread over the GPU.

They start where blocks of the kernel before them have ended. The first multiprocessors to be free
would take as many as they hold, so that a few load what all could: 128 blocks of 64 threads and
110 registers fit on 15 of 132 (docs/lessons/norms_backward.md). Blocks that ask for more shared
memory than they use leave a multiprocessor room for its share of them only.
"""

from __future__ import annotations

from warpsmith.targets.target import Target

MOST_SHARE = 3
"""Blocks a multiprocessor up to which they are spread: more are enough to fill all of them."""


def reserved_bytes(shared_bytes: int, blocks: int, target: Target) -> int:
    """What each block asks for, so that a multiprocessor holds no more than its share of them.

    Args:
        shared_bytes: what a block uses; no less is asked for.
        blocks: of the whole grid.
        target: that runs them.
    """
    limits, share = target.family.limits, -(-blocks // target.sm_count)
    if share > MOST_SHARE:
        return shared_bytes
    step = limits.shared_step
    least = (limits.sm_shared // (share + 1) // step + 1) * step - limits.shared_taken
    return max(shared_bytes, least)
