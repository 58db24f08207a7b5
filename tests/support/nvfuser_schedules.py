"""Schedules by hand in nvFuser's words."""

from typing import Any

from warpsmith.frontends import nvfuser_direct as nvfuser
from warpsmith.frontends.nvfuser_direct import FusionDefinition, ParallelType


def centred(fd: FusionDefinition, threads: int) -> Any:
    """`mean(x) - x` by a row in shared memory, of which each thread takes 4 elements at a time.

    Returns a tensor that was made before the mean's loops were given to the others.
    """
    x = fd.define_tensor([-1, -1], True)
    mean = fd.ops.div(fd.ops.sum(x, [1], keepdim=True), fd.ops.size(x, 1))
    y = fd.ops.sub(x, mean)
    fd.add_output(fd.ops.neg(y))
    row, before = x.cache_after(), y.cache_before()
    row.set_memory_type(nvfuser.MemoryType.shared)
    mean.split(-1, 4 * threads).split(-1, 4)
    fd.sched.transform_like(mean)
    (total,) = (
        each
        for each in fd.fusion.vals()
        if isinstance(each, nvfuser.TensorView)
        and any(axis.is_reduction() for axis in each.get_logical_domain())
    )
    total.rfactor([-1])
    mean.axis(0).parallelize(ParallelType.grid_x)
    mean.axis(-2).parallelize(ParallelType.block_x)
    fd.sched.parallelize_like(mean)
    row.axis(-1).parallelize(ParallelType.vectorize)
    y.axis(-1).parallelize(ParallelType.vectorize)
    fd.sched.inline_most()
    return before


def transposed(fd: FusionDefinition, swizzled: bool) -> list[nvfuser.TensorView]:
    """Tiles of 32 x 32, loaded and stored by TMA; returns the tensors between the two ends."""
    x = fd.define_tensor([-1, -1], [True, True])
    y = fd.ops.permute(x, [1, 0])
    fd.add_output(y)
    loaded = x.cache_after(nvfuser.LoadStoreOpType.tma)
    stored = y.cache_before(nvfuser.LoadStoreOpType.tma)
    between = stored.cache_before()
    for each in (loaded, stored):
        each.set_memory_type(nvfuser.MemoryType.shared)
    y.split(1, 32).split(0, 32).reorder({0: 1, 1: 2, 2: 0}).merge(0, 1)
    y.axis(0).parallelize(ParallelType.grid_x)
    fd.sched.bounded_transform_backward(y, -1, [x], propagate_parallel_type=True)
    for axis in (1, 2):
        y.axis(axis).parallelize(ParallelType.tma)
    stored.set_allocation_domain(stored.get_loop_domain(), new_contiguity=True)
    stored.split(1, 4)
    fd.sched.bounded_transform_backward(stored, -1, [x])
    stored.merge(1, 3)
    stored.axis(1).parallelize(ParallelType.block_x)
    fd.sched.bounded_transform_backward(stored, 3, [loaded], propagate_parallel_type=True)
    between.axis(2).parallelize(ParallelType.vectorize)
    between.set_allocation_domain(between.get_loop_domain())
    loaded.reorder({3: 1, 1: 2, 2: 3}).split(1, 8)
    if swizzled:
        loaded.swizzle(2, 3)
    loaded.set_allocation_domain(loaded.get_loop_domain())
    for axis in (1, 2, 3, 4):
        loaded.axis(axis).parallelize(ParallelType.tma)
    return [loaded, between, stored]
