"""Roles whose loops differ: merged or not, with others inside or after them, or nested rings."""

from tests.support.ring_loads import BLOCK_X, BLOCK_Y, TMA, Kind
from tests.support.role_feeds import Feed, bound_to_threads, defined, others
from warpsmith import FusionDefinition, LoadStoreOpType, MemoryType, ParallelType
from warpsmith.ir.tensor import TensorView

GRID_X = ParallelType.grid_x
WIDE = 256
"""Elements of a row that is a stage."""


def merged_producer(feed: Feed, *, producer: bool = True) -> FusionDefinition:
    """The producer walks all tiles of all rows in one loop, the consumer in two; not inlined."""
    fd, (x,), y = defined([[-1, -1]], lambda fd, x: fd.ops.exp(x))
    load = feed.copy(x)
    for tensor in (load, y):
        tensor.split(1, 128)
    (load if producer else y).merge(0)
    load.circular_buffer(feed.stages, role="load", stage_slice_position=1 if producer else 2)
    feed.bind(load)
    bound_to_threads([y], 64)
    return fd


def merged_consumer(feed: Feed) -> FusionDefinition:
    """The other way round: the consumer walks in one loop, the producer in two."""
    return merged_producer(feed, producer=False)


def _normalized(fd: FusionDefinition, x: TensorView) -> TensorView:
    """Rows of `WIDE` elements with mean 0 and variance 1, nearly."""
    keep = [False, True]
    mean = fd.ops.sum(x, [1]) * (1.0 / WIDE)
    away = x - fd.ops.broadcast(mean, keep)
    variance = fd.ops.sum(away * away, [1]) * (1.0 / WIDE)
    return away * fd.ops.broadcast(fd.ops.rsqrt(variance + 1e-5), keep)


def several_passes(feed: Feed) -> FusionDefinition:
    """A stage is a row, over which the consumer goes three times: mean, variance, result.

    The producer has none of these loops.
    """
    fd, (x,), y = defined([[-1, WIDE]], _normalized)
    load = feed.load(x)
    rest = others(fd, [load])
    for tensor in (load, *rest):
        tensor.split(0, 3)
        tensor.axis(1).parallelize(GRID_X)
    bound_to_threads([t for t in rest if len(t.loop) == 3], 32)
    for total in [t for t in rest if t.has_reduction]:
        total.rfactor([2])
    made = [t for t in fd.fusion.tensors if not t.is_input and t is not y]
    fd.sched.inline_at(y, 2, selected_tensors=made)
    feed.bind(load)
    return fd


def ring_inside(feed: Feed, inner: Kind) -> FusionDefinition:
    """Rows of one operand come from a role; the compute role pipelines the other's itself.

    Its ring turns in a loop inside that of the rows.
    """
    fd, (x, y), z = defined([[-1, 512], [-1, 512]], lambda fd, x, y: x + y)
    load = feed.load(x)
    own = y.cache_after(op_type=inner.op_type)
    if inner is not Kind.registers:
        own.set_memory_type(MemoryType.shared)
    own.circular_buffer(3)
    for tensor in (load, own, z):
        tensor.outer_split(0, 2)
        tensor.axis(0).parallelize(GRID_X)
        tensor.split(-1, 64)
    fd.sched.inline_at(z, 2, selected_tensors=[load])
    fd.sched.inline_at(z, 3, selected_tensors=[own])
    feed.bind(load, vector=1)
    if inner in (Kind.bulk, Kind.tma):
        own.axis(-1).parallelize(TMA)
    else:
        bound_to_threads([own], 32)
    bound_to_threads([z], 32)
    return fd


def ring_outside(feed: Feed) -> FusionDefinition:
    """The compute role's own ring turns with the rows; the role's in a loop inside."""
    fd, (x, y), z = defined([[-1, 512], [-1, 512]], lambda fd, x, y: x + y)
    load = feed.load(x)
    own = y.cache_after(op_type=LoadStoreOpType.cp_async)
    own.set_memory_type(MemoryType.shared)
    own.circular_buffer(3)
    for tensor in (load, own, z):
        tensor.split(-1, 128)
    fd.sched.inline_at(z, 2, selected_tensors=[load])
    fd.sched.inline_at(z, 1, selected_tensors=[own])
    feed.bind(load)
    bound_to_threads([own, z], 64)
    return fd


def two_sums(feed: Feed) -> FusionDefinition:
    """Two loops of a kernel, one after the other: the sums of two inputs, one role loads both."""
    with FusionDefinition() as fd:
        inputs = [fd.define_tensor([-1], True) for _ in range(2)]
        outputs = [fd.ops.sum(x, [0]) for x in inputs]
        for total in outputs:
            fd.add_output(total)
    for x, total in zip(inputs, outputs, strict=True):
        load, part = feed.load(x), total.cache_before()
        for tensor in (load, part):
            tensor.split(0, 128)
        part.split(1, 64)
        part.axis(-1).parallelize(BLOCK_X)
        threads = part.rfactor([0, 1])
        fd.sched.inline_at(threads, 1, selected_tensors=[load])
        feed.bind(load)
    return fd


def read_twice(feed: Feed) -> FusionDefinition:
    """A row is loaded for its sum, and again for what is left without it: two loops a row."""
    fd, (x,), y = defined(
        [[-1, -1]], lambda fd, x: x - fd.ops.broadcast(fd.ops.sum(x, [1]), [False, True])
    )
    total = next(t for t in fd.fusion.tensors if t.has_reduction)
    loads = [feed.copy(x, reader) for reader in (total, y)]
    for load in loads:
        load.circular_buffer(feed.stages, role="load")
    for tensor in (*loads, *others(fd, loads)):
        if len(tensor.loop) == 2:
            tensor.split(1, 128)
    rest = [t for t in others(fd, loads) if len(t.loop) == 3]
    bound_to_threads(rest, 64)
    part = total.rfactor([1, 2])
    for tensor in fd.fusion.tensors:
        if not tensor.is_input:
            tensor.axis(0).parallelize(GRID_X)
    fd.sched.inline_at(part, 2, selected_tensors=loads[:1])
    fd.sched.inline_at(y, 2, selected_tensors=loads[1:])
    for load in loads:
        feed.bind(load)
    fd.sched.inline_at(y, 1, selected_tensors=[part, total], best_effort=True)
    return fd


def dynamic_threads(feed: Feed) -> FusionDefinition:
    """The compute role has as many rows of threads as an input has rows."""
    fd, (x, _), z = defined(
        [[-1, 64], [-1, 64]],
        lambda fd, x, w: (
            fd.ops.broadcast(x, [False, True, False]) * fd.ops.broadcast(w, [True, False, False])
        ),
    )
    load = feed.load(x)
    rest = others(fd, [load])
    for tensor in rest:
        tensor.axis(1).parallelize(BLOCK_Y)
        tensor.axis(2).parallelize(BLOCK_X)
    fd.sched.inline_at(z, 1, selected_tensors=[load], best_effort=True)
    fd.sched.inline_most([t for t in rest if t is not z])
    feed.bind(load, vector=2)
    return fd
