"""Elementwise fusions whose inputs are loaded by roles, one or several, scheduled by hand."""

from functools import reduce

from tests.support.ring_loads import BLOCK_X, BLOCK_Y, Kind
from tests.support.role_feeds import Feed, bound_to_threads, defined, others
from warpsmith import DataType, FusionDefinition, ParallelType
from warpsmith.ir.tensor import TensorView

GRID_X, VECTORIZE = ParallelType.grid_x, ParallelType.vectorize


def _sum(fd: FusionDefinition, *tensors: TensorView) -> TensorView:
    return reduce(lambda a, b: a + b, tensors)


def _tiles(fd: FusionDefinition, feed: Feed, loads: list[TensorView], z: TensorView) -> None:
    """Tiles of 128 elements; 64 threads compute."""
    z.split(0, 128)
    fd.sched.transform_like(z)
    fd.sched.inline_at(z, 1, selected_tensors=loads)
    for load in loads:
        feed.bind(load)
    rest = others(fd, loads)
    bound_to_threads(rest, 64)
    fd.sched.inline_most([t for t in rest if t is not z])


def single_dim(feed: Feed, roles: tuple[str, ...], rings: tuple[str, ...] = ()) -> FusionDefinition:
    """One dimension, a tensor for each of the roles, which may be the same; their sum.

    Two roles are nvFuser's `SingleDimTwoAsyncWarps`.
    """
    fd, inputs, z = defined([[-1]] * len(roles), _sum)
    z.cache_before()
    rings = rings or ("",) * len(roles)
    loads = [feed.load(x, r, ring=n) for x, r, n in zip(inputs, roles, rings, strict=True)]
    _tiles(fd, feed, loads, z)
    return fd


def different_stages(feed: Feed) -> FusionDefinition:
    """Two roles that run ahead by different numbers of stages."""
    fd, inputs, z = defined([[-1]] * 2, _sum)
    loads = [feed.load(inputs[0], "load_a"), Feed(feed.kind, 5).load(inputs[1], "load_b")]
    _tiles(fd, feed, loads, z)
    return fd


def several_dims(feed: Feed) -> FusionDefinition:
    """Two blocks divide the rows, 2 by 128 threads the columns of two tensors' product.

    nvFuser's `TwoAsyncWarps`, but for the stages: they hold 256 columns, not a whole row.
    """
    fd, inputs, z = defined([[-1, -1]] * 2, lambda fd, x, y: x * y)
    loads = [feed.load(x, r) for x, r in zip(inputs, ("load_a", "load_b"), strict=True)]
    z.outer_split(0, 2)
    z.axis(0).parallelize(GRID_X)
    z.split(-1, 256)
    fd.sched.transform_like(z)
    fd.sched.parallelize_like(z)
    fd.sched.inline_at(z, 3, selected_tensors=loads)
    for load in loads:
        feed.bind(load)
    z.split(-1, 128)
    z.axis(-1).parallelize(BLOCK_X)
    z.axis(-2).parallelize(BLOCK_Y)
    return fd


def whole_rows(feed: Feed, columns: int) -> FusionDefinition:
    """As `several_dims`, and a stage is a whole row, whose length is known."""
    fd, inputs, z = defined([[-1, columns]] * 2, lambda fd, x, y: x * y)
    loads = [feed.load(x, r) for x, r in zip(inputs, ("load_a", "load_b"), strict=True)]
    for tensor in (*loads, z):
        tensor.outer_split(0, 2)
        tensor.axis(0).parallelize(GRID_X)
    fd.sched.inline_at(z, 2, selected_tensors=loads)
    for load in loads:
        feed.bind(load)
    z.split(-1, 128)
    z.split(-2, 2)
    z.axis(-1).parallelize(BLOCK_X)
    z.axis(-2).parallelize(BLOCK_Y)
    return fd


def unrolled(feed: Feed, kind: ParallelType = ParallelType.unroll) -> FusionDefinition:
    """A stage is filled by four copies, in an unrolled loop."""
    fd, (x,), y = defined([[-1]], lambda fd, x: x * 2.0)
    load = feed.load(x)
    y.split(0, 32)
    y.split(0, 4)
    fd.sched.transform_like(y)
    fd.sched.inline_at(y, 1, selected_tensors=[load])
    for tensor in (load, y):
        tensor.axis(1).parallelize(kind)
    feed.bind(load, vector=1)
    y.axis(-1).parallelize(BLOCK_X)
    return fd


def tiles(feed: Feed) -> FusionDefinition:
    """Tiles of 4 by 16; both extents may end within one."""
    fd, inputs, z = defined([[-1, -1]] * 2, _sum)
    loads = [feed.load(x, r) for x, r in zip(inputs, ("load_a", "load_b"), strict=True)]
    z.split(1, 16)
    z.split(0, 4)
    z.reorder({1: 2})
    z.axis(0).parallelize(GRID_X)
    fd.sched.transform_like(z)
    fd.sched.parallelize_like(z)
    fd.sched.inline_at(z, 2, selected_tensors=loads)
    for load in loads:
        feed.bind(load, dims=2)
    z.axis(-1).parallelize(BLOCK_X)
    z.axis(-2).parallelize(BLOCK_Y)
    return fd


def unequal_work(feed: Feed) -> FusionDefinition:
    """Three blocks walk tiles by the grid's strides; the last tiles of some lie outside."""
    fd, inputs, z = defined([[-1]] * 2, _sum)
    loads = [feed.load(x, r) for x, r in zip(inputs, ("load_a", "load_b"), strict=True)]
    z.split(0, 128)
    z.split(0, 3)
    z.axis(1).parallelize(GRID_X)
    fd.sched.transform_like(z)
    fd.sched.parallelize_like(z)
    fd.sched.inline_at(z, 2, selected_tensors=loads)
    for load in loads:
        feed.bind(load)
    bound_to_threads([z], 32)
    return fd


def narrow(feed: Feed, dtype: DataType) -> FusionDefinition:
    """Two bytes an element, read and stored eight at once; the sum is a Float's."""

    def meaning(fd: FusionDefinition, x: TensorView, y: TensorView) -> TensorView:
        wide = [fd.ops.cast(t, DataType.Float) for t in (x, y)]
        return fd.ops.cast(wide[0] + wide[1], dtype)

    fd, inputs, z = defined([[-1]] * 2, meaning, dtype)
    loads = [feed.load(x, r) for x, r in zip(inputs, ("load_a", "load_b"), strict=True)]
    reads = [load.cache_after() for load in loads]
    work = z.cache_before()
    z.split(0, 256)
    fd.sched.transform_like(z)
    fd.sched.inline_at(z, 1, selected_tensors=loads)
    for load in loads:
        feed.bind(load, vector=8)
    rest = others(fd, loads)
    for tensor in rest:
        tensor.split(-1, 8)
        tensor.axis(-2).parallelize(BLOCK_X)
    for tensor in (*reads, z):
        tensor.axis(-1).parallelize(VECTORIZE)
    fd.sched.inline_at(z, 2, selected_tensors=[*reads, work])
    fd.sched.inline_most([t for t in rest if t not in (*reads, work, z)])
    return fd


def mixed_kinds(feed: Feed) -> FusionDefinition:
    """One role loads by the TMA unit, another one by threads."""
    fd, inputs, z = defined([[-1]] * 2, _sum)
    other = Feed(Kind.cp_async if feed.by_tma else Kind.bulk, feed.stages)
    loads = [feed.load(inputs[0], "load_a"), other.load(inputs[1], "load_b")]
    z.split(0, 128)
    fd.sched.transform_like(z)
    fd.sched.inline_at(z, 1, selected_tensors=loads)
    for load, its in zip(loads, (feed, other), strict=True):
        its.bind(load)
    bound_to_threads([z], 64)
    return fd


def dynamic_threads(feed: Feed) -> FusionDefinition:
    """A block computes a row, of which each thread has one element: as many as the call says."""
    fd, (x,), y = defined([[-1, -1, 64]], lambda fd, x: x * 2.0)
    load = feed.load(x)
    fd.sched.inline_at(y, 2, selected_tensors=[load])
    return fd
