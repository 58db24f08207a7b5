"""What passes between kernels shares memory, and never with what is in use at the same time."""

import ml_dtypes
import numpy as np

import warpsmith
from tests.support.binaries import uncompiled
from warpsmith import ops
from warpsmith.engine.arena import ALIGNMENT, arena_of
from warpsmith.engine.executable import Executable
from warpsmith.layouts.lifetimes import Life

BFLOAT = np.dtype(ml_dtypes.bfloat16)


def test_a_chain_needs_two_tensors_at_a_time() -> None:
    chain = [Life(f"T{n}", 4096, n, n + 1, ALIGNMENT) for n in range(20)]
    arena = arena_of(chain)
    assert arena.size == 2 * 4096
    assert [name for name, _ in arena.offsets] == [life.name for life in chain]


def test_the_largest_come_first() -> None:
    small, large = Life("T0", 8, 0, 1, ALIGNMENT), Life("T1", 4096, 1, 2, ALIGNMENT)
    assert arena_of([small, large]).offsets == (("T0", 4096), ("T1", 0))


def test_layers_take_no_more_memory_than_one() -> None:
    def layers(count: int) -> int:
        def program(x: object, w: object) -> object:
            for _ in range(count):
                x = ops.linear(ops.linear(x, w), w)  # type: ignore[arg-type]
            return x

        arrays = np.empty((512, 256), BFLOAT), np.empty((256, 256), BFLOAT)
        executable = Executable(warpsmith.fuse(program).lower(*arrays).fusion)
        with uncompiled():
            call = executable.plan_for(arrays)
        assert len(call.temporaries) == 2 * count - 1
        return call.arena.size

    assert layers(8) == layers(2) == 2 * 512 * 256 * 2
