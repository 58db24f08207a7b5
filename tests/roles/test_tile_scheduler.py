"""Products whose blocks are handed their tiles by a counter, through an agent of its own."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from tests.roles.test_hand_offs import SIZES
from tests.roles.test_ping_pong_products import STORES, works
from tests.support.lowering import lowered
from tests.support.ping_pong_products import ping_pong_product
from tests.support.product_schedules import by_hand
from tests.support.simulating import reported
from warpsmith import (
    DataType,
    FusionDefinition,
    LoadStoreOpType,
    MemoryType,
    ParallelType,
    TileOrder,
)
from warpsmith.engine.proofs import prove
from warpsmith.errors import ScheduleError
from warpsmith.ir.scalar import evaluate
from warpsmith.kernel.kernel import Kernel
from warpsmith.lower.pipeline import lower
from warpsmith.lower.request import Request
from warpsmith.ops.scalars import numpy_dtype
from warpsmith.sim.report import Report
from warpsmith.targets.hopper import H200

ALL_STORES = {**STORES, "by a role": {}}


@pytest.mark.few(2)
@pytest.mark.parametrize("stores", ALL_STORES)
@pytest.mark.parametrize("sizes", [(1, 1, 8), (64, 128, 72), (330, 136, 40)])
def test_products(sizes: tuple[int, int, int], stores: str) -> None:
    fd = ping_pong_product(dynamic=True, **ALL_STORES[stores])
    works(fd, sizes, schedules=8)
    assert "tiles: tile scheduler, warp " in fd.explain()


def test_three_groups_in_another_order() -> None:
    order = TileOrder("columns", band=2)
    works(ping_pong_product(dynamic=True, groups=3, order=order, **STORES["from registers"]))


@cache
def product() -> Kernel:
    fd = ping_pong_product(stored_by="compute", bound=True, dynamic=True)
    return lowered(fd)


def report_of(kernel: Kernel) -> Report:
    """A run on random operands, the counter at 0 before."""
    memory = {}
    for parameter in kernel.parameters:
        if not parameter.written:
            size = evaluate(parameter.size, dict(SIZES))
            data = np.random.default_rng(size).uniform(-2, 2, size)
            memory[parameter.name] = data.astype(numpy_dtype(parameter.dtype))
    return reported(kernel, SIZES, memory, schedules=4)


def test_the_counter_comes_round() -> None:
    prove(product(), SIZES, H200)
    report = report_of(product())
    assert report.verdict == "clean", str(report)
    assert report.arrays["tiles_arrivals"].tolist() == [0]


def refused(make: Callable[[], FusionDefinition], code: str, words: str) -> None:
    with pytest.raises(ScheduleError, match=code) as caught:
        lowered(make())
    assert words in str(caught.value)


def bound(position: int, kind: ParallelType = ParallelType.dynamic) -> FusionDefinition:
    """A cooperative product; all tensors have a loop bound so."""
    fd = by_hand()
    for tensor in fd.fusion.computed:
        tensor.loop[position].parallel = kind
    return fd


def summed() -> FusionDefinition:
    """Sums over tiles that a role loads."""
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, 64], True)
        y: Any = fd.ops.sum(x, [0])
        fd.add_output(y)
        load: Any = x.cache_after()
        load.set_memory_type(MemoryType.shared)
        total = y.cache_before()
        total.split(0, 2)
        fd.sched.transform_like(total)
        for tensor in (load, total, y):
            for axis, kind in zip(
                tensor.loop[:2], (ParallelType.dynamic, ParallelType.grid_x), strict=False
            ):
                axis.parallel = kind
        load.circular_buffer(2, role="load", stage_slice_position=2)
    return fd


def test_loops_that_cannot_be_handed_out() -> None:
    refused(partial(bound, 2), "WS0381", "split the loop over tiles by the number of blocks")
    refused(summed, "WS0381", "joins what comes from one iteration to the next")
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        y: Any = fd.ops.exp(x)
        fd.add_output(y)
        y.split(0, 4)
        y.axis(0).parallelize(ParallelType.dynamic)
        y.axis(1).parallelize(ParallelType.grid_x)
    refused(lambda: fd, "WS0381", "the kernel has no roles")


def test_no_loop_over_tiles_turns_a_ring_in_place() -> None:
    """Which tile comes next is not known before it is handed out."""
    fd = ping_pong_product(dynamic=True, **STORES["through shared memory"])
    staged: Any = next(t for t in fd.fusion.tensors if t.copied_by is LoadStoreOpType.stmatrix)
    staged.circular_buffer(2)
    refused(lambda: fd, "WS0291", "dynamic")


def test_what_runs_before_and_beside() -> None:
    for request in (Request(follows=True, followed=True), Request(wait_limit=10**9, thorough=True)):
        fd = ping_pong_product(dynamic=True)
        kernel = lower(fd.fusion, "k", DataType.Int, target=H200, request=request)
        assert [most for _, most in kernel.limits] == [2**30]
        prove(kernel, SIZES, H200)
        assert report_of(kernel).verdict == "clean"


def test_a_cooperative_product() -> None:
    works(bound(0), (200, 136, 72), schedules=8)
