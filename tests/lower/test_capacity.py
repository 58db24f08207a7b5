"""Threads that a block cannot have are refused, and the remedy works."""

import pytest

from tests.support.lowering import lowered
from tests.support.program import Program
from warpsmith.errors import ScheduleError
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.schedule.transforms import parallelize, split


def negated(threads: int, kind: ParallelType, beside: int = 1) -> Fusion:
    """One operation whose loops are `[grid_x, kind, block_x]`."""
    p = Program()
    output = p.op("neg", p.input(DataType.Float, (None,)))
    p.output(output)
    split(output, 0, beside)
    split(output, 0, threads)
    parallelize(output, 0, ParallelType.grid_x)
    parallelize(output, 1, kind)
    parallelize(output, 2, ParallelType.block_x)
    return p.fusion


def test_a_block_has_64_threads_along_z_at_most() -> None:
    with pytest.raises(ScheduleError, match="WS1102.*128 threads along block_z.*by 64 or less"):
        lowered(negated(128, ParallelType.block_z))
    lowered(negated(64, ParallelType.block_z))


def test_a_block_has_1024_threads_at_most() -> None:
    with pytest.raises(ScheduleError, match=r"WS1102.*64 x 32 x 1 = 2048 threads"):
        lowered(negated(32, ParallelType.block_y, 64))
    lowered(negated(16, ParallelType.block_y, 64))
