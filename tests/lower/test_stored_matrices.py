"""Copies to shared memory by `stmatrix`: right on the simulator, or refused."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.lowering import lowered
from warpsmith import DataType, FusionDefinition, LoadStoreOpType, MemoryType, ParallelType, knobs
from warpsmith.errors import ScheduleError
from warpsmith.schedule.transforms import pad_allocation, set_allocation_domain


def staged(
    *, padding: int = 0, swizzle: int = 0, turned: bool = False, rows: int = 64
) -> FusionDefinition:
    """`rows` x 64 elements that fragments hold, stored as matrices in rows, or columns."""
    with FusionDefinition() as fd:
        x: Any = fd.define_tensor([rows, 64], True, DataType.BFloat16)
        wide: Any = fd.ops.cast(x, DataType.Float)
        negative: Any = fd.ops.neg(wide)
        out: Any = fd.ops.cast(negative, DataType.BFloat16)
        fd.add_output(out)
        result: Any = out.cache_before()
        shared: Any = result.cache_after()
        shared.set_memory_type(MemoryType.shared)
        shared.set_load_store_op(LoadStoreOpType.stmatrix)
        axes = list(shared.loop)
        set_allocation_domain(shared, axes[::-1] if turned else axes)
        pad_allocation(shared, padding)
        shared.set_swizzle(swizzle)
        for tensor in (wide, negative, result, shared):
            tensor.split_fragments()
            tensor.axis(0).parallelize(ParallelType.block_x)
            tensor.split(1, 2)
        shared.tensorize()
        out.merge(0)
        out.split(0, 2 * rows)
        out.axis(1).parallelize(ParallelType.block_x)
        fd.sched.inline_at(result, 2)
    return fd


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rows", [16, 64])
@pytest.mark.parametrize(("padding", "swizzle"), [(0, 0), (8, 0), (0, 128)])
def test_matrices_are_stored_where_they_are_read(
    padding: int, swizzle: int, rows: int, turned: bool
) -> None:
    """By a warp, and by a warp group; as they are, and turned on their way."""
    values = np.arange(64 * rows).reshape(rows, 64).astype(ml_dtypes.bfloat16)
    fusion = staged(padding=padding, swizzle=swizzle, rows=rows, turned=turned)
    with knobs.scope(device="sim"):
        (result,) = fusion.manual_execute([values])
    np.testing.assert_array_equal(result, -values)


def test_rows_that_are_no_16_bytes_of_their_own_are_refused() -> None:
    """Padded by 8 bytes, every other row would begin within 16 bytes."""
    with pytest.raises(ScheduleError, match="WS1003") as refusal:
        lowered(staged(padding=4))
    assert "are no matrices of stmatrix" in str(refusal.value)
    assert "call split_fragments" in refusal.value.remedy
