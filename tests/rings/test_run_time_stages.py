"""Stages whose length calls decide: one bulk copy brings a whole row into each."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.protocol.edits import edited, refused, without
from tests.support.lowering import lowered
from warpsmith import DataType, FusionDefinition, LoadStoreOpType, MemoryType, ParallelType, knobs
from warpsmith.errors import ArgumentError, ScheduleError
from warpsmith.kernel.nodes import Statement
from warpsmith.kernel.rings import ArriveByWarp, Await, Expect, FenceProxy
from warpsmith.protocol.checks import check
from warpsmith.targets.hopper import H200

BLOCKS, THREADS = 2, 64


def rows(
    stages: int,
    role: str = "",
    *,
    dtype: DataType = DataType.Float,
    carrier: LoadStoreOpType = LoadStoreOpType.bulk,
    centered: bool = False,
) -> FusionDefinition:
    """Rows through so many stages, doubled, or less their sum before; two blocks loop over them.

    Each thread makes the sum of a row for itself.
    """
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, dtype)
        total: Any = fd.ops.sum(x, [1]) if centered else None
        wide = fd.ops.sub(x, fd.ops.broadcast(total, [False, True])) if centered else x
        y: Any = fd.ops.cast(fd.ops.mul(wide, 2.0), dtype)
        fd.add_output(y)
        row: Any = x.cache_after(op_type=carrier)
        row.set_memory_type(MemoryType.shared)
        made: list[Any] = [t for t in fd.fusion.computed if t is not row]
        for tensor in (row, *made):
            tensor.split(0, BLOCKS)
            tensor.reorder({0: 1, 1: 0})
            tensor.axis(0).parallelize(ParallelType.grid_x)
        for tensor in made:
            if len(tensor.loop) > 2 and tensor is not total:
                tensor.split(2, THREADS)
                tensor.axis(3).parallelize(ParallelType.block_x)
        fd.sched.inline_at(y, 2)
        fd.sched.inline_most([t for t in made if t is not y])
        row.axis(2).parallelize(ParallelType.tma)
        if stages > 1:
            row.circular_buffer(stages, role=role)
    return fd


def check_rows(fd: FusionDefinition, array: np.ndarray, *, centered: bool = False) -> None:
    with knobs.scope(device="sim"):
        (result,) = fd.manual_execute([array])
    wide = array.astype(np.float64)
    wanted = 2 * (wide - wide.sum(1, keepdims=True) if centered else wide)
    np.testing.assert_allclose(result.astype(np.float64), wanted, rtol=2**-7, atol=1e-4)
    verification = fd.verify([array], schedules=3)
    assert verification.verdict == "clean", str(verification)


def numbers(count: int, columns: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(columns).standard_normal((count, columns)).astype(dtype)


@pytest.mark.few(2)
@pytest.mark.parametrize(("stages", "role"), [(1, ""), (3, ""), (2, "load"), (3, "load")])
def test_one_schedule_takes_rows_of_every_length(stages: int, role: str) -> None:
    """Also those that the TMA unit cannot copy, and none at all."""
    fd = rows(stages, role)
    for columns in (256, 4, 252, 1000, 250, 5, 0):
        check_rows(fd, numbers(7, columns))
        assert ("is copied by the threads" in fd.explain()) == (columns % 4 != 0)
    check_rows(fd, numbers(0, 8))


@pytest.mark.parametrize("role", ["", "load"])
def test_rows_that_are_read_twice(role: str) -> None:
    fd = rows(2, role, centered=True)
    for columns in (64, 200):
        check_rows(fd, numbers(5, columns), centered=True)


def test_rows_of_two_bytes() -> None:
    fd = rows(3, dtype=DataType.BFloat16)
    for columns in (256, 8, 100):
        check_rows(fd, numbers(7, columns, ml_dtypes.bfloat16))


def test_rows_that_do_not_fit() -> None:
    """Three stages of 20,000 floats are more than a block has; the calls around it work."""
    fd = rows(3)
    check_rows(fd, numbers(3, 64))
    with pytest.raises(ArgumentError, match="WS0326") as caught:
        fd.manual_execute([numbers(3, 20000)])
    assert "240064 bytes of shared memory" in str(caught.value)
    assert "240000), and it may have 232448; pass shorter rows, or" in str(caught.value)
    check_rows(fd, numbers(3, 128))
    check_rows(rows(2), numbers(3, 20000))


def test_rows_that_do_not_fit_when_nothing_is_proved() -> None:
    with knobs.scope(verify="off", device="sim"), pytest.raises(ArgumentError, match="WS0326"):
        rows(3).manual_execute([numbers(3, 20000)])


@pytest.mark.parametrize("role", ["", "load"])
@pytest.mark.parametrize("kind", [Await, Expect, FenceProxy, ArriveByWarp])
def test_what_guards_a_stage_is_needed(kind: type[Statement], role: str) -> None:
    """The check tells stages apart whose length it is told: else a fill were of what is read."""
    kernel = lowered(rows(3, role).fusion)
    sizes = {"T0_size0": 16, "T0_size1": 200, "T0_stride0": 200, "T0_stride1": 1}
    check(kernel, sizes, target=H200)
    refused(edited(kernel, without(kind)), sizes)


def test_boxes_still_have_constant_lengths() -> None:
    """A tensor map has its box; what the message says is done above."""
    with pytest.raises(ScheduleError, match="WS0209") as caught:
        rows(3, carrier=LoadStoreOpType.tma)
    assert "load whole rows by LoadStoreOpType.bulk" in caught.value.remedy
