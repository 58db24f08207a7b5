"""A fusion scheduled by hand whose kernel copies tiles by tensor maps, of its input and output."""

import numpy as np

from tests.support.tiling import Tiling, bind_tile, loaded, stored
from warpsmith import DataType, FusionDefinition, LoadStoreOpType
from warpsmith.engine.launches import CallPlan
from warpsmith.ir.fusion import Fusion

TILING = Tiling((8, 32), grid=True, threads=64)
"""Blocks of the grid have rows of tiles."""


def scaled() -> FusionDefinition:
    """`T1 = T0 * factor`, with rows of T0 that may be padded."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [False, True])
        y = x * fd.define_scalar(DataType.Float)
        fd.add_output(y)
    load, work = loaded(x, LoadStoreOpType.tma), stored(y, LoadStoreOpType.tma)
    TILING.apply(y)
    fd.sched.transform_like(y)
    fd.sched.parallelize_like(y)
    for tensor in (load, y):
        bind_tile(tensor, (0, 1))
    TILING.share(work)
    fd.sched.inline_at(y, 2)
    return fd


def planned(rows: int, columns: int, stride: int) -> tuple[Fusion, CallPlan]:
    """The fusion as it is run, and a call of it with rows `stride` elements apart."""
    executable = scaled().executable(scheduled=True)
    return executable.fusion, executable.plan_for([padded(rows, columns, stride), 1.0])


def padded(rows: int, columns: int, stride: int) -> np.ndarray:
    """Rows that lie `stride` elements apart, in memory that starts at a multiple of 64 bytes."""
    raw = np.zeros(rows * stride + 16, np.float32)
    lead = -raw.ctypes.data % 64 // 4
    whole = raw[lead : lead + rows * stride].reshape(rows, stride)
    whole[...] = np.random.default_rng(3).standard_normal(whole.shape)
    return whole[:, :columns]


def values(rows: int, columns: int, stride: int) -> dict[str, int]:
    """Sizes and strides of such a call, by name."""
    sizes = {"T0_size0": rows, "T0_size1": columns}
    return {**sizes, "T0_stride0": stride, "T0_stride1": 1}
