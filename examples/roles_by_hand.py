"""A kernel scheduled by hand: one warp loads by TMA, four compute.

    python examples/roles_by_hand.py

You say what lives where, which role fills it and through how many stages. Barriers, arrivals,
bytes, waits and fences are derived; they are proved before the kernel is compiled, and checked
again on its PTX by the simulator.
"""

import numpy as np

from warpsmith import DataType, FusionDefinition, LoadStoreOpType, MemoryType, ParallelType


def scheduled() -> FusionDefinition:
    """`silu(x)` in tiles of 4 by 128: `load` brings them, `compute` stores the results."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, DataType.Float)
        y = fd.ops.silu(x)
        fd.add_output(y)

        tile = x.cache_after(op_type=LoadStoreOpType.tma)  # who carries the copy
        tile.set_memory_type(MemoryType.shared)

        y.split(1, 128)
        y.split(0, 4)
        y.reorder({1: 2, 2: 1})  # [rows / 4, columns / 128, 4, 128]
        y.axis(0).parallelize(ParallelType.grid_x)
        fd.sched.transform_like(y)
        fd.sched.parallelize_like(y)
        fd.sched.inline_at(y, 2)
        tile.axis(-2).parallelize(ParallelType.tma)  # one copy moves 4 x 128 elements
        tile.axis(-1).parallelize(ParallelType.tma)
        y.axis(-1).parallelize(ParallelType.block_x)

        tile.circular_buffer(3, role="load")  # three stages, filled by a warp of its own
    return fd


def main() -> None:
    fd = scheduled()
    x = np.random.default_rng(0).standard_normal((8, 1024)).astype(np.float32)
    (y,) = fd.manual_execute([x])
    np.testing.assert_allclose(y, x / (1 + np.exp(-x)), rtol=1e-5, atol=1e-6)

    print("Roles, stages and barriers, as they were derived:\n")
    print(fd.explain(sync=True))
    verification = fd.verify([x], schedules=4)
    print(f"\nThe PTX under four orders of warps and copies: {verification.verdict}")
    assert verification.verdict == "clean"


if __name__ == "__main__":
    main()
