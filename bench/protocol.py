"""What the protocol check costs, each time against the limit that it promises. Needs no GPU."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from bench.measure import Setting, significant
from bench.row import Row
from warpsmith.targets.hopper import H200

SUITE = "protocol"
SMS = 132
_TIMES, _QUICK_TIMES = 9, 3


def measure_protocol(setting: Setting, *, quick: bool) -> list[Row]:
    """Median microseconds of `check` for one block, after lowering and before compiling."""
    from warpsmith import DataType
    from warpsmith.engine.proofs import prove
    from warpsmith.lower.pipeline import lower

    kernels: tuple[tuple[str, Callable[[], Any], tuple[int, ...], float], ...] = (
        ("norm", norm, (8192, 4096), 20e3),
        ("matmul", matmul, (8192, 8192, 8192, 8192), 50e3),
    )
    rows = []
    for name, schedule, shape, limit_us in kernels:
        fusion = schedule()
        kernel = lower(fusion, name, DataType.Int32, target=H200)
        values = dict(zip(_sizes(name), shape, strict=True))
        times = []
        for _ in range(_QUICK_TIMES if quick else _TIMES):
            start = time.perf_counter()
            prove(kernel, values, H200)
            times.append(1e6 * (time.perf_counter() - start))
        rows.append(
            Row(
                suite=SUITE,
                problem=name,
                shape=shape[:3],
                dtype="float",
                impl="warpsmith",
                us=significant(statistics.median(times), 3),
                limit_us=limit_us,
                gpu=setting.gpu,
                versions=setting.versions,
                date=setting.date,
            )
        )
    return rows


def _sizes(name: str) -> tuple[str, ...]:
    """Names of the sizes of a kernel's inputs."""
    products = ("T0_size0", "T0_size1", "T1_size0", "T1_size1")
    return ("T0_size0", "T0_size1") if name == "norm" else products


def norm(groups: int = 2, stages: int = 4, columns: int = 4096) -> Any:
    """Rows less their means: a load role, and groups of 128 threads that take rows in turn."""
    from warpsmith import DataType, FusionDefinition, LoadStoreOpType, MemoryType, ParallelType

    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, columns], True, DataType.Float)
        total: Any = fd.ops.sum(x, [1])
        mean = fd.ops.mul(total, 1 / columns)
        y: Any = fd.ops.sub(x, fd.ops.broadcast(mean, [False, True]))
        fd.add_output(y)
        rows: Any = x.cache_after(op_type=LoadStoreOpType.bulk)
        rows.set_memory_type(MemoryType.shared)
        for tensor in (y, rows):
            tensor.split(0, groups)
            tensor.split(0, SMS)  # [turns, blocks, groups, columns]
            tensor.axis(1).parallelize(ParallelType.grid_x)
        y.split(-1, 128)
        rest = [t for t in fd.fusion.computed if t is not y and t is not rows]
        fd.sched.transform_like(y, rest)
        y.axis(2).parallelize(ParallelType.block_y)
        y.axis(-1).parallelize(ParallelType.block_x)
        partial = total.rfactor([3])
        rest = [t for t in fd.fusion.computed if t is not y and t is not rows]
        fd.sched.parallelize_like(y, selected_tensors=rest)
        rows.axis(-1).parallelize(ParallelType.tma)
        rows.circular_buffer(stages, role="load", stage_slice_position=3)
        fd.sched.inline_at(y, 3, best_effort=True, selected_tensors=rest)
        fd.sched.inline_most([partial])
    return fd.fusion


def matmul() -> Any:
    """The kernel of a large matrix product as the scheduler makes it: tiles of 128 x 256 x 64."""
    from warpsmith import DataType, FusionDefinition
    from warpsmith.schedulers.problem import Problem
    from warpsmith.schedulers.select import select

    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1, -1], True, DataType.BFloat16) for _ in range(2))
        fd.add_output(fd.ops.linear(a, b))
    candidate = select(fd.fusion, H200)
    values = dict(zip(_sizes("matmul"), (8192, 8192, 8192, 8192), strict=True))
    params, _ = candidate.choose(Problem(values=values, alignment={}, target=H200))
    return candidate.scheduled(params)
