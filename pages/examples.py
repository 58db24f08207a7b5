"""The kernels of docs/rings.md, which has no roles, and of docs/roles.md, which has four."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpsmith import DataType, FusionDefinition, LoadStoreOpType, MemoryType, ParallelType
from warpsmith.engine.launches import CallPlan
from warpsmith.schedule.rings import circular_buffer
from warpsmith.schedule.roles import set_role
from warpsmith.schedule.transforms import parallelize, set_memory_type

SHAPE = (4, 1024)
"""Of both inputs, for tables and picture: one block, which walks eight tiles."""


RING_SHAPE = (8, 500)
"""Of the ring's input: one block and eight tiles, too."""

STAGES, PREFETCH = 3, 2


def scheduled_ring() -> FusionDefinition:
    """`silu(x)`, in tiles of 8 by 64 that the TMA unit loads ahead."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, DataType.Float)
        y = fd.ops.silu(x)
        fd.add_output(y)
        tile = x.cache_after(op_type=LoadStoreOpType.tma)
        set_memory_type(tile, MemoryType.shared)
        y.split(1, 64)
        y.split(0, 8)
        y.reorder({1: 2, 2: 1})
        y.axis(0).parallelize(ParallelType.grid_x)
        fd.sched.transform_like(y)
        fd.sched.parallelize_like(y)
        fd.sched.inline_at(y, 2, selected_tensors=[tile])
        circular_buffer(tile, STAGES, PREFETCH)
        parallelize(tile, -2, ParallelType.tma)
        parallelize(tile, -1, ParallelType.tma)
        y.axis(-1).parallelize(ParallelType.block_x)
    return fd


def scheduled_roles() -> FusionDefinition:
    """`silu(gate) * x`, in tiles of 4 by 128: two roles load, one computes, one stores."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, DataType.Float)
        gate = fd.define_tensor([-1, -1], True, DataType.Float)
        opened = fd.ops.silu(gate)
        y = fd.ops.mul(opened, x)
        fd.add_output(y)
        tiles = [tensor.cache_after(op_type=LoadStoreOpType.tma) for tensor in (x, gate)]
        result = y.cache_before(op_type=LoadStoreOpType.tma)
        for tensor in (*tiles, result):
            set_memory_type(tensor, MemoryType.shared)
        y.split(1, 128)
        y.split(0, 4)
        y.reorder({1: 2, 2: 1})
        y.axis(0).parallelize(ParallelType.grid_x)
        fd.sched.transform_like(y)
        fd.sched.parallelize_like(y)
        fd.sched.inline_at(y, 2)
        for tensor in (*tiles, y):
            parallelize(tensor, -2, ParallelType.tma)
            parallelize(tensor, -1, ParallelType.tma)
        for tensor in (opened, result):
            tensor.axis(-1).parallelize(ParallelType.block_x)
        fd.sched.inline_most([opened])
        circular_buffer(tiles[0], 3, role="load_x")
        circular_buffer(tiles[1], 2, role="load_gate")
        circular_buffer(result, 2)
        set_role(y, "store")
    return fd


def zeros(shapes: Sequence[Sequence[int]]) -> list[object]:
    """Inputs of these shapes, for tables and pictures, which tell nothing of values."""
    return [np.zeros(tuple(shape), np.float32) for shape in shapes]


def planned(fd: FusionDefinition, shapes: Sequence[Sequence[int]]) -> CallPlan:
    """The call of a fusion that is scheduled by hand, for inputs of these shapes."""
    call: CallPlan = fd.executable(scheduled=True).plan_for(zeros(shapes))
    return call
