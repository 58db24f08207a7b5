"""Shared memory by which the blocks of a kernel that starts early spread over the GPU.

They start where blocks of the kernel before them have ended. The first multiprocessors to be free
would take as many as they hold, so that a few load what all could: 128 blocks of 64 threads and
110 registers fit on 15 of 132 (docs/lessons/norms_backward.md). Blocks that ask for more shared
memory than they use leave a multiprocessor room for its share of them only.
"""

from __future__ import annotations

from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, evaluate
from warpsmith.targets.target import Target

MOST_SHARE = 8
"""Blocks a multiprocessor up to which they are spread. Those of sums of columns are no more."""


def reserved_bytes(shared_bytes: int, blocks: int, target: Target) -> int:
    """What each block asks for, so that a multiprocessor holds no more than its share of them.

    Args:
        shared_bytes: what a block uses; no less is asked for.
        blocks: of the whole grid.
        target: that runs them.
    """
    return evaluate(reserved_of(Const(shared_bytes), Const(blocks), target), {})


def reserved_of(shared_bytes: Expr, blocks: Expr, target: Target) -> Expr:
    """`reserved_bytes` of numbers that depend on sizes."""
    limits, share = target.family.limits, integers.ceildiv(blocks, target.sm_count)
    steps = integers.add(
        integers.floordiv(
            limits.sm_shared, integers.mul(integers.add(share, 1), limits.shared_step)
        ),
        1,
    )
    least = integers.sub(integers.mul(steps, limits.shared_step), limits.shared_taken)
    few = Apply("le", (share, Const(MOST_SHARE)), DataType.Bool)
    spread = integers.maximum(shared_bytes, least)
    return Apply("where", (few, spread, shared_bytes), DataType.Index)
