"""Roles that read from one ring and fill the next one, scheduled by hand."""

from tests.support.ring_loads import BLOCK_X, TMA, Kind
from tests.support.role_feeds import Feed, bound_to_threads, defined, others
from warpsmith import FusionDefinition, LoadStoreOpType, MemoryType, ParallelType
from warpsmith.ir.tensor import TensorView

GRID_X = ParallelType.grid_x


def _stored(z: TensorView, feed: Feed) -> TensorView:
    """What is stored from shared memory, by TMA, in a role `store`; the output is `z`."""
    carrier = LoadStoreOpType.tma if feed.kind is Kind.tma else LoadStoreOpType.bulk
    stage = z.cache_before(op_type=carrier)
    stage.set_memory_type(MemoryType.shared)
    stage.circular_buffer(feed.stages)
    z.set_role("store")
    return stage


def _rows(fd: FusionDefinition, z: TensorView) -> None:
    """Two rows a block; tiles of 256 columns, which all other tensors walk in the same loops."""
    z.split(1, 256)
    z.split(0, 2)
    z.axis(0).parallelize(GRID_X)
    fd.sched.transform_like(z)
    fd.sched.parallelize_like(z)
    fd.sched.inline_at(z, 3)


def transformed(feed: Feed, *, transforms: int = 1, stores: bool = False) -> FusionDefinition:
    """Load, transform (once or more, a role each), compute; and store, by a role of its own."""
    made: list[TensorView] = []

    def meaning(fd: FusionDefinition, x: TensorView) -> TensorView:
        made.append(x)
        for _ in range(transforms):
            made.append(fd.ops.neg(made[-1]) * 0.5)
        return fd.ops.exp(made[-1])

    fd, (x,), y = defined([[-1, -1]], meaning)
    steps = made[1:]
    load = feed.load(x)
    for number, step in enumerate(steps):
        step.set_memory_type(MemoryType.shared)
        step.circular_buffer(feed.stages, role=f"transform_{number}")
    work = _stored(y, feed) if stores else y
    _rows(fd, y)
    feed.bind(load)
    if stores:
        y.axis(-1).parallelize(TMA)
    outside = [load, *([y] if stores else [])]
    bound_to_threads(others(fd, outside), 64)
    registers = [t for t in others(fd, [*outside, *steps]) if t is not work]
    fd.sched.inline_most(registers)
    return fd


def stored_by_role(feed: Feed) -> FusionDefinition:
    """Threads compute from global memory into stages, which a role stores: no load role."""
    fd, _, y = defined([[-1, -1]], lambda fd, x: fd.ops.exp(x))
    stage = _stored(y, feed)
    _rows(fd, y)
    y.axis(-1).parallelize(TMA)
    stage.split(-1, 4)
    stage.split(-2, 64)
    stage.axis(-2).parallelize(BLOCK_X)
    return fd


def copied(feed: Feed) -> FusionDefinition:
    """One role loads, another one stores from the same stages; no thread reads or writes them."""
    fd, (x,), y = defined([[-1, -1]], lambda fd, x: fd.ops.set(x))
    load = feed.load(x)
    y.set_load_store_op(LoadStoreOpType.tma if feed.kind is Kind.tma else LoadStoreOpType.bulk)
    y.set_role("store")
    _rows(fd, y)
    for tensor in (load, y):
        tensor.axis(-1).parallelize(TMA)
    return fd


def forked(feed: Feed) -> FusionDefinition:
    """Two roles transform what one role loads, and a fourth one adds what they make."""
    made: list[TensorView] = []

    def meaning(fd: FusionDefinition, x: TensorView) -> TensorView:
        made.extend((fd.ops.neg(x), fd.ops.exp(x)))
        return made[0] + made[1]

    fd, (x,), y = defined([[-1, -1]], meaning)
    load = feed.load(x)
    for role, step in zip(("left", "right"), made, strict=True):
        step.set_memory_type(MemoryType.shared)
        step.circular_buffer(feed.stages, role=role)
    _rows(fd, y)
    feed.bind(load)
    bound_to_threads(others(fd, [load]), 64)
    return fd


def _negated_and_raised() -> tuple[FusionDefinition, TensorView, list[TensorView]]:
    """A definition of two outputs, and its input."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        outputs = [fd.ops.neg(x), fd.ops.exp(x)]
        for y in outputs:
            fd.add_output(y)
    return fd, x, outputs


def _tiles(*tensors: TensorView) -> None:
    """Tiles of 256 elements of a row, of which a block has two rows."""
    for tensor in tensors:
        tensor.split(1, 256)
        tensor.split(0, 2)
        tensor.axis(0).parallelize(GRID_X)


def two_outputs(feed: Feed) -> FusionDefinition:
    """Two roles compute an output each from the same stages."""
    fd, x, outputs = _negated_and_raised()
    load = feed.load(x)
    outputs[1].set_role("second")
    _tiles(load, *outputs)
    fd.sched.inline_at(outputs[0], 3, selected_tensors=[load])
    feed.bind(load)
    bound_to_threads(outputs, 64)
    return fd


def two_stores(feed: Feed) -> FusionDefinition:
    """A role each stores two outputs, which one role computes."""
    fd, x, outputs = _negated_and_raised()
    load = feed.load(x)
    stages = [_stored(y, feed) for y in outputs]
    outputs[1].role = ""
    outputs[1].set_role("store_b")
    _tiles(load, *stages, *outputs)
    for tensor in outputs:
        fd.sched.inline_at(tensor, 3)
    feed.bind(load)
    for tensor in outputs:
        tensor.axis(-1).parallelize(TMA)
    bound_to_threads(stages, 64)
    return fd
