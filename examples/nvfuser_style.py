"""A program in nvFuser's words: define, schedule, execute.

    python examples/nvfuser_style.py

`execute` schedules by itself; `manual_execute` takes the schedule that you laid. A definition
prints as a program that defines the same fusion again.
"""

import numpy as np

from warpsmith import DataType, FusionDefinition, ParallelType


def defined(*, schedule: bool) -> FusionDefinition:
    """`sum(exp(x))` over rows."""
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.Float)
        e = fd.ops.exp(x)
        total = fd.ops.sum(e, [1])
        fd.add_output(total)

        if schedule:  # a block a row, 128 threads along it
            result = total  # stored
            total = result.cache_before()  # in a register
            total.split(1, 128)
            fd.sched.transform_like(total)
            total.rfactor([1])  # what a thread sums by itself
            total.axis(0).parallelize(ParallelType.grid_x)
            total.axis(-1).parallelize(ParallelType.block_x)
            fd.sched.parallelize_like(total)
            fd.sched.inline_most()
    return fd


def main() -> None:
    x = np.random.default_rng(0).standard_normal((16, 1000)).astype(np.float32)
    wanted = np.exp(x).sum(axis=1)

    by_itself = defined(schedule=False)
    (result,) = by_itself.execute([x])
    np.testing.assert_allclose(result, wanted, rtol=1e-5)
    print(by_itself)
    print(by_itself.explain())

    by_hand = defined(schedule=True)
    (result,) = by_hand.manual_execute([x])
    np.testing.assert_allclose(result, wanted, rtol=1e-5)
    print("The same, scheduled by hand:\n")
    print(by_hand.explain())
    print(by_hand.verify([x], schedules=2))


if __name__ == "__main__":
    main()
