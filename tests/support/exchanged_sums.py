"""Rows less their sums, over blocks of a cluster that exchange parts of these."""

import numpy as np

from tests.schedule.test_clusters import CLUSTER, reduction_of, spread
from tests.support.launching import values_of
from tests.support.program import Program
from tests.support.simulating import reported
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.kernel.kernel import Kernel
from warpsmith.lower.pipeline import lower
from warpsmith.schedule.transforms import split
from warpsmith.targets.hopper import H200

BLOCKS, THREADS, ROWS, COLUMNS = 3, 64, 7, 400


def summed(rows: ParallelType | None = None, blocks: int = BLOCKS) -> Kernel:
    """Blocks of two warps each; the rows in a loop, or on the grid."""
    p = Program()
    x = p.input(DataType.Float, (None, None))
    p.output(p.op("sub", p.broadcast(p.reduce("sum", x, [1]), [False, True]), x))
    total = reduction_of(p.fusion)
    split(total, 1, blocks, inner_split=False)
    split(total, 2, THREADS)
    kinds = {1: CLUSTER, 3: ParallelType.block_x}
    spread(total, kinds if rows is None else {0: rows, **kinds}, [2])
    return lower(p.fusion, "rows", DataType.Int32, target=H200)


def given() -> np.ndarray:
    return np.random.default_rng(1).integers(-9, 10, (ROWS, COLUMNS)).astype(np.float32)


def values() -> dict[str, int]:
    p = Program()
    p.input(DataType.Float, (None, None))
    return values_of(p.fusion, {"T0": given()})


def findings(kernel: Kernel, schedules: int = 24) -> list[str]:
    """What is wrong with a kernel on the simulator; empty where nothing is."""
    x = given()
    output = next(b.name for b in kernel.parameters if b.written)
    report = reported(kernel, values(), {"T0": x}, schedules=schedules)
    assert report.verdict != "incomplete", report
    if report.verdict == "findings":
        return sorted({finding.kind for finding in report.findings})
    right = np.array_equal(report.arrays[output].reshape(x.shape), x.sum(1, keepdims=True) - x)
    return [] if right else ["wrong results"]
