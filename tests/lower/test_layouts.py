"""Allocation domains by hand: they tell apart all that is alive at once, or are refused."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.support.lowering import lowered
from warpsmith import DataType, FusionDefinition, MemoryType, ParallelType
from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain
from warpsmith.schedule.transforms import set_allocation_domain

Axes = Callable[[Any], Sequence[IterDomain]]


def tiled(axes: Axes, *, stages: int = 0, memory: MemoryType = MemoryType.shared) -> Any:
    """`silu` of tiles of 4 x 64 that the threads copy, loops `[rows / 4, columns / 64, 4, 64]`."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, DataType.Float)
        y: Any = fd.ops.silu(x)
        fd.add_output(y)
        tile: Any = x.cache_after()
        tile.set_memory_type(MemoryType.shared)
        y.split(1, 64)
        y.split(0, 4)
        y.reorder({1: 2, 2: 1})
        y.axis(0).parallelize(ParallelType.grid_x)
        fd.sched.transform_like(y)
        fd.sched.parallelize_like(y)
        fd.sched.inline_at(y, 2, selected_tensors=[tile])
        for tensor in (tile, y):
            tensor.axis(-1).parallelize(ParallelType.block_x)
        set_allocation_domain(tile, axes(tile))
        tile.set_memory_type(memory)
        if stages:
            tile.circular_buffer(stages)
    return fd


def refused(fd: FusionDefinition, *says: str) -> None:
    with pytest.raises(ScheduleError, match="WS1101") as caught:
        lowered(fd)
    for words in says:
        assert words in str(caught.value)


def works(fd: FusionDefinition) -> None:
    array = np.random.default_rng(0).standard_normal((9, 200)).astype(np.float32)
    (result,) = fd.manual_execute([array])
    np.testing.assert_allclose(result, array / (1 + np.exp(-array)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("stages", [0, 2])
@pytest.mark.parametrize(("kept", "lost"), [(2, r"i[64 threadIdx.x]"), (3, "i[4]")])
def test_a_loop_that_is_left_out(stages: int, kept: int, lost: str) -> None:
    """The rows of a tile, or its columns, would have one place."""
    fd = tiled(lambda t: [t.loop[kept]], stages=stages)
    refused(fd, "T2 is allocated in shared memory along", f"leaves out [{lost}]")


@pytest.mark.parametrize("stages", [0, 2])
def test_the_remedy_of_a_loop_that_is_left_out(stages: int) -> None:
    works(tiled(lambda t: [t.loop[3], t.loop[2]], stages=stages))


def test_what_loops_are_made_from_tells_them_apart() -> None:
    """Rows of a tile are split again after its memory was laid out."""

    def halves(t: Any) -> list[IterDomain]:
        rows, columns = t.loop[2:]
        t.split(2, 2)
        return [rows, columns]

    works(tiled(halves))


def test_a_part_of_a_loop_does_not() -> None:
    def half(t: Any) -> list[IterDomain]:
        t.split(2, 2)
        return [t.loop[3], t.loop[4]]

    refused(tiled(half), "leaves out [i[2]]")


def test_registers_hold_what_a_thread_has_alive() -> None:
    """The memory was said to be shared when its allocation was."""
    local = MemoryType.local
    refused(tiled(lambda t: [t.loop[3]], memory=local), "in registers", "leaves out [i[4]]")
    works(tiled(lambda t: [t.loop[2]], memory=local))


def test_an_axis_that_no_loop_walks() -> None:
    axis = IterDomain(integers.index(4))
    refused(tiled(lambda t: [*t.loop[2:], axis]), "along", "which its loops", "do not walk")


def test_blocks_of_the_grid_need_no_room() -> None:
    works(tiled(lambda tile: (tile.loop[0], *tile.loop[2:])))
