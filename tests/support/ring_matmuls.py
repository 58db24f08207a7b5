"""Products of matrices by the threads, whose operands come through circular buffers."""

from tests.support.ring_loads import BLOCK_X, BLOCK_Y, Kind, Ring
from warpsmith import FusionDefinition, ParallelType
from warpsmith.ir.tensor import TensorView

TILE = 8
"""Rows, columns and depth of a tile."""


def _tiled(fd: FusionDefinition, ring: Ring, c: TensorView, *, through_registers: bool) -> None:
    """A block computes a tile of the product, a thread an element; the ring walks the depth.

    Args:
        c: the output, [rows, columns], which a sum over the middle dimension defines.
    """
    a, b = fd.fusion.input_tensors
    total = c.cache_before()
    loads = [ring.load(a), ring.load(b)]
    fragments = [load.cache_after() for load in loads] if through_registers else []
    for place in (2, 1, 0):
        total.split(place, TILE)
    # [rows, row, depth, step, columns, column]
    total.reorder({4: 1, 2: 2, 3: 3, 1: 4, 0: 0, 5: 5})
    fd.sched.transform_like(total)
    total.axis(0).parallelize(ParallelType.grid_x)
    total.axis(1).parallelize(ParallelType.grid_y)
    total.axis(4).parallelize(BLOCK_Y)
    total.axis(5).parallelize(BLOCK_X)
    rest = [t for t in fd.fusion.tensors if not t.is_input and t not in (total, *loads)]
    fd.sched.parallelize_like(total, 2, loads)
    fd.sched.parallelize_like(total, selected_tensors=rest)
    fd.sched.inline_at(total, 3, selected_tensors=loads)
    for fragment in fragments:
        fd.sched.inline_at(total, 4, selected_tensors=[fragment])
        fragment.circular_buffer(ring.stages, ring.prefetch)
    fd.sched.inline_most([t for t in rest if t not in fragments])
    loads[0].reorder({5: 3})  # [rows, columns, depth, column, step, row]
    loads[0].reorder({5: 4})  # [rows, columns, depth, column, row, step]
    loads[1].reorder({4: 3})  # [rows, columns, depth, row, step, column]
    for load in loads:
        if ring.kind is Kind.tma:
            load.axis(-2).parallelize(ParallelType.tma)
            load.axis(-1).parallelize(ParallelType.tma)
        elif ring.kind is Kind.bulk:
            load.axis(-1).parallelize(ParallelType.tma)
        else:
            load.axis(-2).parallelize(BLOCK_Y)
            load.axis(-1).parallelize(BLOCK_X)


def _product(*, through_registers: bool, ring: Ring) -> FusionDefinition:
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1, -1], True) for _ in range(2))
        wide = fd.ops.broadcast(a, [False, False, True])
        c = fd.ops.sum(wide * fd.ops.broadcast(b, [True, False, False]), [1])
        fd.add_output(c)
    _tiled(fd, ring, c, through_registers=through_registers)
    return fd


def matmul(ring: Ring) -> FusionDefinition:
    """Operands are matrices, and broadcast after they were loaded."""
    return _product(through_registers=False, ring=ring)


def matmul_broadcast(ring: Ring) -> FusionDefinition:
    """Operands have a broadcast dimension in memory already."""
    with FusionDefinition() as fd:
        a, b = fd.define_tensor([-1, -1, 1], True), fd.define_tensor([1, -1, -1], True)
        c = fd.ops.sum(a * b, [1])
        fd.add_output(c)
    _tiled(fd, ring, c, through_registers=False)
    return fd


def block_gemm_cache(ring: Ring) -> FusionDefinition:
    """A ring in registers, filled from the stages of the one in shared memory."""
    return _product(through_registers=True, ring=ring)
