"""Columns that blocks of a grid share: they meet, and all of them need what comes of it."""

from warpsmith import DataType, FusionDefinition, ParallelType

ROWS, THREADS, BLOCKS = 1000, 64, 4


def shares(blocks: int = BLOCKS, clusters: int = 1) -> FusionDefinition:
    """`x / sum(x)` of rows that so many blocks share; blocks of so many rows are a cluster."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, ROWS], True, DataType.Float)
        total = fd.ops.sum(x, [1], keepdim=False)
        share = fd.ops.div(x, fd.ops.broadcast(total, [False, True]))
        fd.add_output(share)

        x.cache_after()
        total.split(1, blocks, inner_split=False)
        total.split(2, THREADS)  # [rows, blocks of a row, passes, threads]
        if clusters > 1:
            total.split(0, clusters)
        fd.sched.transform_like(total)
        total.axis(0).parallelize(ParallelType.grid_x)
        if clusters > 1:
            total.axis(1).parallelize(ParallelType.cluster_x)
        total.axis(-3).parallelize(ParallelType.grid_y)
        total.axis(-1).parallelize(ParallelType.block_x)
        fd.sched.parallelize_like(total)
        total.rfactor([len(total.loop) - 2])
        fd.sched.inline_at(share, len(total.loop) - 1, best_effort=True)
    return fd
