"""`exp(x)` by hand, each through a ring of its own."""

from typing import Any

from warpsmith import FusionDefinition, LoadStoreOpType, MemoryType, ParallelType


def exponentials(
    *rings: tuple[LoadStoreOpType, int], tile: int = 64, threads: int = 64, pairs: bool = False
) -> FusionDefinition:
    """Independent `exp(x)`, each with a loop and a ring, by what carries its tiles and its stages.

    Args:
        pairs: threads that load have two elements next to each other, which neighbours read.
    """
    with FusionDefinition() as fd:
        for load, stages in rings:
            x: Any = fd.define_tensor([-1], True)
            y: Any = fd.ops.exp(x)
            fd.add_output(y)
            cache = x.cache_after(op_type=load)
            cache.set_memory_type(MemoryType.shared)
            y.split(-1, tile)
            fd.sched.transform_like(y, [cache])
            fd.sched.inline_at(y, 1, selected_tensors=[cache])
            cache.circular_buffer(stages)
            if load.is_tma:
                cache.axis(-1).parallelize(ParallelType.tma)
            else:
                cache.split(-1, 2 if pairs else threads)
                cache.axis(-2 if pairs else -1).parallelize(ParallelType.block_x)
            y.split(-1, threads)
            y.axis(-1).parallelize(ParallelType.block_x)
    return fd
