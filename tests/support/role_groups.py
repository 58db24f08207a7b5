"""Groups of warps that take turns on the stages which a role fills, scheduled by hand."""

from tests.support.ring_loads import BLOCK_X, BLOCK_Y, TMA
from tests.support.role_feeds import Feed, defined, others
from warpsmith import FusionDefinition, LoadStoreOpType, MemoryType, ParallelType
from warpsmith.ir.tensor import TensorView

GRID_X = ParallelType.grid_x
COLUMNS, ROWS = 128, 4
"""Of a group's tile."""


def _laid_out(
    loads: list[TensorView],
    rest: list[TensorView],
    groups: int,
    blocks: int,
    strided: bool = False,
) -> None:
    """Rows and columns to [blocks, serial, groups, 4, 128]; the loads' loops are all serial.

    Args:
        strided: blocks walk by the grid's strides, not each a run of rows of its own.
    """
    for tensor in (*loads, *rest):
        tensor.split(0, ROWS)
        tensor.split(0, groups)
        if strided:
            tensor.split(0, blocks)
            tensor.reorder({0: 1, 1: 0})
        else:
            tensor.outer_split(0, blocks)
        tensor.axis(0).parallelize(GRID_X)
    for tensor in rest:
        tensor.axis(2).parallelize(BLOCK_Y)
        tensor.axis(-1).parallelize(BLOCK_X)


def sliced(
    feed: Feed, *, groups: int, position: int, inputs: int = 1, strided: bool = False
) -> FusionDefinition:
    """nvFuser's `StageSlicePositionComputeAt`: a stage holds what loops from `position` on walk.

    At 2 a stage is all groups' rows, at 3 those of one group, at 4 one row. Several inputs share
    the role (nvFuser's `TwoTmaLoads`).
    """
    fd, tensors, z = defined([[-1, COLUMNS]] * inputs, lambda fd, *xs: sum(xs[1:], xs[0]) * 2.0)
    loads = [feed.copy(x) for x in tensors]
    z.cache_before()
    rest = others(fd, loads)
    _laid_out(loads, rest, groups, blocks=3, strided=strided)
    fd.sched.inline_at(z, 2, selected_tensors=loads)
    fd.sched.inline_most([t for t in rest if t is not z])
    for load in loads:
        load.circular_buffer(feed.stages, role="load", stage_slice_position=position)
        feed.bind(load)
    return fd


def with_weight(feed: Feed, *, groups: int, role: str = "weights") -> FusionDefinition:
    """nvFuser's `NonCircularBufferedTv`: a row of weights is loaded once, without stages.

    Args:
        role: of its own, that of the other load, or none: then it is the readers'.
    """

    def meaning(fd: FusionDefinition, x: TensorView, weight: TensorView) -> TensorView:
        return x * fd.ops.broadcast(weight, [True, False])

    fd, (x, weight), z = defined([[-1, COLUMNS], [COLUMNS]], meaning)
    load = feed.copy(x)
    kept = weight.cache_after(op_type=LoadStoreOpType.bulk)
    kept.set_memory_type(MemoryType.shared)
    if role:
        kept.set_role(role)
    rest = others(fd, [load, kept])
    _laid_out([load], rest, groups, blocks=2)
    fd.sched.inline_at(z, 2, selected_tensors=[load])
    fd.sched.inline_most([t for t in rest if t is not z])
    load.circular_buffer(feed.stages, role="load", stage_slice_position=3)
    feed.bind(load)
    kept.axis(-1).parallelize(TMA)
    return fd


def ping_pong(feed: Feed, *, groups: int, ordered: bool = True) -> FusionDefinition:
    """Groups take tiles of 64 rows in turn, whose columns they walk; then each row's result.

    A tile has as many stages as columns ask for. In order, the groups' main loops follow each
    other, and so do what they store.
    """
    fd, (x,), y = defined([[-1, -1]], lambda fd, x: fd.ops.exp(fd.ops.sum(x, 1)))
    total = next(t for t in fd.fusion.tensors if t.has_reduction)
    load = feed.copy(x)
    total.split(1, 16)
    total.split(0, 64)
    total.split(0, groups)
    total.split(0, 2)
    total.reorder({3: 4, 4: 3})  # [serial, block, group, tiles of columns, 64, 16]
    total.axis(1).parallelize(GRID_X)
    fd.sched.transform_like(total)
    fd.sched.parallelize_like(total)
    fd.sched.inline_at(total, 2, selected_tensors=[load])
    load.circular_buffer(feed.stages, role="load", stage_slice_position=4)
    feed.bind(load, dims=2)
    for tensor, place in ((total, 4), (y, 3)):
        tensor.axis(2).parallelize(BLOCK_Y)
        tensor.axis(place).parallelize(BLOCK_X)
    fd.sched.inline_at(y, 4, selected_tensors=[total], best_effort=True)
    if ordered:
        total.order_groups("main")
        y.order_groups("epilogue")
    return fd


def row_sums(feed: Feed, *, groups: int) -> FusionDefinition:
    """The threads of a group add up its row: they meet at a barrier of their own."""
    fd, (x,), y = defined([[-1, COLUMNS]], _centered)
    load = feed.copy(x)
    rest = others(fd, [load])
    for tensor in (load, *rest):
        tensor.split(0, groups)
        tensor.split(0, 2)
        tensor.axis(1).parallelize(GRID_X)
    made = [t for t in fd.fusion.tensors if not t.is_input and t is not y]
    fd.sched.inline_at(y, 2, selected_tensors=made)
    for tensor in rest:
        tensor.axis(2).parallelize(BLOCK_Y)
        tensor.axis(-1).parallelize(BLOCK_X)
    fd.sched.inline_at(y, 3, selected_tensors=[t for t in made if t is not load])
    load.circular_buffer(feed.stages, role="load", stage_slice_position=3)
    feed.bind(load)
    return fd


def _centered(fd: FusionDefinition, x: TensorView) -> TensorView:
    return x - fd.ops.broadcast(fd.ops.sum(x, [1]), [False, True])


def shaped(
    feed: Feed,
    block: tuple[int, int, int],
    axis: ParallelType,
    registers: tuple[int, int] | None = None,
) -> FusionDefinition:
    """nvFuser's `CtaShapeShmoo`: the block's shape, and the axis that it is specialized along."""
    fd, (x,), y = defined([[-1]], lambda fd, x: fd.ops.exp(x))
    load = feed.copy(x)
    wide, high, deep = block
    y.split(0, wide * high * deep)
    fd.sched.transform_like(y)
    fd.sched.inline_at(y, 1, selected_tensors=[load])
    feed.bind(load)
    for extent, kind in ((wide, BLOCK_X), (high, BLOCK_Y), (deep, ParallelType.block_z)):
        y.split(1, extent)
        y.axis(2).parallelize(kind)
    fd.sched.warp_specialize(load, feed.stages, -1, axis, registers)
    return fd
