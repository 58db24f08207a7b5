"""Reductions in roles: over threads of a role, of one of its groups, and over blocks."""

from collections.abc import Callable

from tests.support.ring_loads import BLOCK_X, BLOCK_Y
from tests.support.role_feeds import Feed, defined, others
from warpsmith import FusionDefinition, ParallelType
from warpsmith.ir.tensor import TensorView

GRID_X, GRID_Y = ParallelType.grid_x, ParallelType.grid_y

Reduction = Callable[[FusionDefinition, TensorView, list[int]], TensorView]


def summed(fd: FusionDefinition, x: TensorView, axes: list[int]) -> TensorView:
    return fd.ops.sum(x, axes)


def largest(fd: FusionDefinition, x: TensorView, axes: list[int]) -> TensorView:
    return fd.ops.max(x, axes)


def inner(feed: Feed, *, reduction: Reduction = summed, blocks: int = 1) -> FusionDefinition:
    """A block reduces a row, tile by tile, by 64 threads; or several blocks do, the last at the
    end.
    """
    fd, (x,), y = defined([[-1, -1]], lambda fd, x: reduction(fd, x, [1]))
    total = y.cache_before()
    load = feed.load(x)
    for tensor in (load, total):
        tensor.split(1, 128)
        tensor.outer_split(1, blocks)
    total.split(-1, 64)
    for tensor in (load, total):
        tensor.axis(1).parallelize(GRID_X)
    total.axis(-1).parallelize(BLOCK_X)
    part = total.rfactor([2, 3])
    for tensor in (load, part, total, y):
        tensor.axis(0).parallelize(GRID_Y)
    fd.sched.inline_at(part, 3, selected_tensors=[load])
    fd.sched.inline_most([part, total])
    feed.bind(load)
    return fd


def outer(feed: Feed, *, blocks: int = 1) -> FusionDefinition:
    """A thread has a column of a tile of 16 rows; four rows of threads add up, or blocks, too."""
    fd, (x,), y = defined([[-1, 128]], lambda fd, x: fd.ops.sum(x, [0]))
    total = y.cache_before()
    load = feed.load(x)
    for tensor in (load, total):
        tensor.split(0, 16)
        tensor.outer_split(0, blocks)
        tensor.axis(0).parallelize(GRID_X)
    total.split(2, 4)
    total.axis(3).parallelize(BLOCK_Y)
    total.axis(4).parallelize(BLOCK_X)
    y.axis(0).parallelize(BLOCK_X)
    part = total.rfactor([1, 2])
    fd.sched.inline_at(part, 2, selected_tensors=[load])
    feed.bind(load, dims=2)
    return fd


def welford(feed: Feed) -> FusionDefinition:
    """Squared distances of rows from their mean, in one pass over tiles, combined over threads."""
    fd, (x,), y = defined([[-1, -1]], lambda fd, x: fd.ops.welford(x, [1])[1] * 2.0)
    load = feed.load(x)
    mean = next(t for t in fd.fusion.tensors if t.has_reduction)  # and what comes with it
    for tensor in (load, mean):
        tensor.split(1, 128)
    mean.split(-1, 64)
    mean.axis(-1).parallelize(BLOCK_X)
    part = mean.rfactor([1, 2])[0]
    for tensor in (load, part, mean, y):
        tensor.axis(0).parallelize(GRID_X)
    fd.sched.inline_at(part, 2, selected_tensors=[load])
    fd.sched.inline_at(y, 1, selected_tensors=[part, mean], best_effort=True)
    feed.bind(load)
    return fd


def groups(feed: Feed, *, count: int, reduction: Reduction = summed) -> FusionDefinition:
    """Groups reduce rows in turn, each over its own 64 threads, and use the row once more."""

    def meaning(fd: FusionDefinition, x: TensorView) -> TensorView:
        return x - fd.ops.broadcast(reduction(fd, x, [1]), [False, True])

    fd, (x,), y = defined([[-1, 128]], meaning)
    load = feed.copy(x)
    rest = others(fd, [load])
    for tensor in (load, *rest):
        tensor.split(0, count)
        tensor.split(0, 2)
        tensor.axis(1).parallelize(GRID_X)
    for tensor in rest:
        tensor.axis(2).parallelize(BLOCK_Y)
        if len(tensor.loop) == 4:
            tensor.split(-1, 64)
            tensor.axis(-1).parallelize(BLOCK_X)
    for total in [t for t in rest if t.has_reduction]:
        total.rfactor([3])
    made = [t for t in fd.fusion.tensors if not t.is_input and t is not y]
    fd.sched.inline_at(y, 2, selected_tensors=made)
    fd.sched.inline_at(y, 3, selected_tensors=others(fd, [load, y]))
    load.circular_buffer(feed.stages, role="load", stage_slice_position=3)
    feed.bind(load)
    return fd
