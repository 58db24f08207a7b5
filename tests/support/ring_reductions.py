"""Reductions of what circular buffers bring, scheduled by hand."""

from tests.support.ring_loads import BLOCK_X, BLOCK_Y, Kind, Ring, bind_last
from warpsmith import FusionDefinition, ParallelType
from warpsmith.ir.tensor import TensorView

GRID_X = ParallelType.grid_x


def inner(ring: Ring) -> FusionDefinition:
    """A block sums a row, tile by tile."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        total = fd.ops.sum(x, [1])
        fd.add_output(total)
    sums = total.cache_before()
    load = ring.load(x)
    sums.split(1, 64)
    load.split(1, 64)
    sums.split(2, 32)
    bind_last(BLOCK_X, sums)
    parts = sums.rfactor([1, 2])
    for tensor in (load, parts, sums, total):
        tensor.axis(0).parallelize(GRID_X)
    fd.sched.inline_at(parts, 2, selected_tensors=[load])
    ring.bind(load, 32, adjacent=2)
    fd.sched.inline_most([parts, sums])
    return fd


def outer(ring: Ring) -> FusionDefinition:
    """A thread sums a column; a tile is four rows."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 32], True)
        total = fd.ops.sum(x, [0])
        fd.add_output(total)
    sums = total.cache_before()
    load = ring.load(x)
    for tensor in (load, sums):
        tensor.split(0, 4)
    fd.sched.inline_at(sums, 1, selected_tensors=[load])
    ring.bind(load, 32, dims=2)
    bind_last(BLOCK_X, sums, total)
    return fd


def _centered(ring: Ring) -> tuple[FusionDefinition, TensorView, TensorView, TensorView]:
    """Rows less their sums: the fusion, the load, the sum, and the output."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 32], True)
        total = fd.ops.sum(x, [1])
        y = x - fd.ops.broadcast(total, [False, True])
        fd.add_output(y)
    return fd, ring.load(x), total, y


def _by_rows(
    fd: FusionDefinition, ring: Ring, load: TensorView, total: TensorView, y: TensorView
) -> FusionDefinition:
    """A tile is four rows, each of which a warp sums and uses again."""
    total.split(0, 4)
    rest = [t for t in fd.fusion.tensors if not t.is_input and t not in (load, total)]
    fd.sched.transform_like(total, [load, *rest])
    made = [t for t in fd.fusion.tensors if not t.is_input and t is not y]
    fd.sched.inline_at(y, 1, selected_tensors=made)
    for tensor in (total, *rest):
        tensor.axis(1).parallelize(BLOCK_Y)
    bind_last(BLOCK_X, total, *rest)
    ring.bind(load, 32, dims=2)
    if ring.kind not in (Kind.bulk, Kind.tma):
        load.axis(1).parallelize(BLOCK_Y)
    return fd


def persistent(ring: Ring) -> FusionDefinition:
    """Rows stay in their stage until they were used twice."""
    fd, load, total, y = _centered(ring)
    return _by_rows(fd, ring, load, total, y)


def persistent_registers(ring: Ring) -> FusionDefinition:
    """Rows go from their stage to registers, where they are used twice."""
    fd, load, total, y = _centered(ring)
    load.cache_after()
    return _by_rows(fd, ring, load, total, y)
