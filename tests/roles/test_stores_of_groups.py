"""Stores by the TMA unit that the groups ask for which compute what is stored."""

from typing import Any

import numpy as np
import pytest

from tests.protocol.edits import edited, without
from tests.roles.test_ping_pong_products import works
from tests.support.lowering import lowered
from tests.support.ping_pong_products import ping_pong_product
from warpsmith import DataType, FusionDefinition, LoadStoreOpType, MemoryType, ParallelType
from warpsmith.errors import ProtocolError, ScheduleError
from warpsmith.kernel.nodes import Statement, Synchronize
from warpsmith.kernel.rings import AwaitCopies, FenceProxy
from warpsmith.protocol.checks import check
from warpsmith.targets.hopper import H200

SIZES = {
    f"T{tensor}_{name}": value
    for tensor, rows in ((0, 384), (1, 128))
    for name, value in {"size0": rows, "size1": 192}.items()
}


@pytest.mark.few(1)
@pytest.mark.parametrize("columns", [64, 128])
@pytest.mark.parametrize("groups", [2, 4])
def test_each_group_stores_its_own_tiles(groups: int, columns: int) -> None:
    works(ping_pong_product(groups=groups, columns=columns, stored_by="compute", bound=True))


@pytest.mark.parametrize("kind", [FenceProxy, Synchronize, AwaitCopies])
def test_what_orders_a_store_of_a_group_is_needed(kind: type[Statement]) -> None:
    kernel = lowered(ping_pong_product(stored_by="compute", bound=True).fusion)
    check(kernel, SIZES, target=H200)
    with pytest.raises(ProtocolError):
        check(edited(kernel, without(kind), role="compute"), SIZES, target=H200)


def refused(fd: FusionDefinition, code: str, *says: str) -> None:
    with pytest.raises(ScheduleError, match=code) as caught:
        lowered(fd)
    for words in says:
        assert words in str(caught.value)


def test_stores_whose_loop_over_groups_is_not_bound() -> None:
    """What the message says is what the test above does."""
    fd = ping_pong_product(stored_by="compute")
    refused(fd, "WS0263", "; call T3.axis(2).parallelize(ParallelType.block_y)")


def test_a_role_of_its_own_stores_for_all_groups() -> None:
    fd = ping_pong_product(bound=True)
    refused(fd, "WS0219", "along which no groups of warps take turns", "; leave it serial")
    works(ping_pong_product(), (128, 64, 64))


def halves(*, bound: bool, shared: int) -> FusionDefinition:
    """`silu` of tiles of 2 x 4 x 64, a thread along y for each half, which the TMA unit stores."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, DataType.Float)
        y: Any = fd.ops.silu(x)
        fd.add_output(y)
        staged: Any = y.cache_before(op_type=LoadStoreOpType.tma)
        staged.set_memory_type(MemoryType.shared)
        y.split(1, 64)
        y.split(0, 4)
        y.split(0, 2)
        y.reorder({3: 1})  # [rows / 8, columns / 64, 2, 4, 64]
        y.axis(0).parallelize(ParallelType.grid_x)
        fd.sched.transform_like(y)
        fd.sched.parallelize_like(y)
        staged.axis(2).parallelize(ParallelType.block_y)
        staged.axis(4).parallelize(ParallelType.block_x)
        if bound:
            y.axis(2).parallelize(ParallelType.block_y)
        for axis in (3, 4):
            y.axis(axis).parallelize(ParallelType.tma)
        fd.sched.inline_at(y, shared, selected_tensors=[staged])
    return fd


def test_threads_that_are_no_groups_have_one_thread_ask_for_all() -> None:
    remedy = "inline_at(T1, 2, selected_tensors=[T2])"
    refused(halves(bound=False, shared=3), "WS0263", "one copy moves what all threads", remedy)
    refused(halves(bound=True, shared=3), "WS0219", "; leave it serial, and let T2", remedy)
    array = np.random.default_rng(0).standard_normal((20, 200)).astype(np.float32)
    fd = halves(bound=False, shared=2)
    (result,) = fd.manual_execute([array])
    np.testing.assert_allclose(result, array / (1 + np.exp(-array)), rtol=1e-5, atol=1e-6)
    assert fd.verify([array], schedules=3).verdict == "clean"


def test_loads_are_for_all_threads_as_well() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 256], True, DataType.Float)
        y: Any = fd.ops.silu(x)
        fd.add_output(y)
        tile: Any = x.cache_after(op_type=LoadStoreOpType.tma)
        tile.set_memory_type(MemoryType.shared)
        y.split(1, 64)
        y.split(0, 2)
        y.axis(0).parallelize(ParallelType.grid_x)
        fd.sched.transform_like(y)
        fd.sched.parallelize_like(y)
        y.axis(1).parallelize(ParallelType.block_y)
        y.axis(3).parallelize(ParallelType.block_x)
        fd.sched.inline_at(y, 2, selected_tensors=[tile])
        tile.axis(3).parallelize(ParallelType.tma)
    refused(fd, "WS0263", "one copy moves what all threads compute: inline_at(T1, 1, selected_")
    fd.sched.inline_at(y, 1, selected_tensors=[tile])
    array = np.random.default_rng(0).standard_normal((6, 256)).astype(np.float32)
    (result,) = fd.manual_execute([array])
    np.testing.assert_allclose(result, array / (1 + np.exp(-array)), rtol=1e-5, atol=1e-6)
