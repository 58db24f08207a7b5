"""Matrix products get their fences and groups, and release stages when their group is done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.product_kernels import check_product
from tests.support.tiled_product import Product
from tests.support.unordered_kernels import count, unordered_product
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Statement, Synchronize
from warpsmith.kernel.products import AwaitProducts, CommitProducts, FenceProducts, Multiply
from warpsmith.kernel.rings import ArriveByWarp, AwaitCopies, CommitCopies, FenceProxy
from warpsmith.kernel.traversal import walk
from warpsmith.lower.passes.order import order

SMALL = Product(groups=1, columns=64, depth=32, stages=3, chunk=32, registers=None)


def along_k(kernel: Kernel) -> For:
    """The loop whose iterations multiply one stage."""
    (branch,) = [s for s in kernel.body if isinstance(s, Branch) and s.agent.name == "compute"]
    loops = [s for s in walk(branch.body) if isinstance(s, For)]
    return [s for s in loops if any(isinstance(i, Multiply) for i in walk(s.body))][1]


def products(statements: tuple[Statement, ...]) -> list[Statement]:
    return [s for s in statements if isinstance(s, FenceProducts | CommitProducts | AwaitProducts)]


def test_one_group_stays_on_its_way_from_iteration_to_iteration() -> None:
    kernel = order(unordered_product(SMALL))
    sums = (SMALL.accumulators,)
    loop = along_k(kernel)
    assert products(loop.body) == [FenceProducts(sums), CommitProducts(), AwaitProducts(1)]
    (late,) = [s for s in loop.body if isinstance(s, If)]
    assert late.uniform
    assert [type(s) for s in late.body] == [ArriveByWarp]
    assert not [s for s in loop.body if isinstance(s, ArriveByWarp)]


def test_behind_the_loop_all_products_are_awaited_once_and_the_last_stage_is_released() -> None:
    kernel = order(unordered_product(SMALL))
    loop = along_k(kernel)
    (around,) = [s for s in walk(kernel.body) if isinstance(s, For) and loop in s.body]
    behind = around.body[around.body.index(loop) + 1 :]
    assert products(behind) == [AwaitProducts(0, (SMALL.accumulators,))]
    assert behind[0] == AwaitProducts(0, (SMALL.accumulators,))
    assert isinstance(behind[1], If)
    assert [type(s) for s in behind[1].body] == [ArriveByWarp]


def test_with_one_stage_nothing_stays_on_its_way() -> None:
    """The stage would never be free again."""
    loop = along_k(order(unordered_product(replace(SMALL, stages=1))))
    sums = (SMALL.accumulators,)
    assert products(loop.body) == [FenceProducts(sums), CommitProducts(), AwaitProducts(0, sums)]
    assert [type(s) for s in loop.body[-2:]] != [ArriveByWarp, ArriveByWarp]
    assert [s for s in loop.body if isinstance(s, ArriveByWarp)]


@pytest.mark.parametrize("staging", [2, 3, 4])
def test_a_tile_is_staged_with_one_meeting_a_chunk(staging: int) -> None:
    kernel = order(unordered_product(replace(SMALL, staging=staging)))
    assert count(kernel, Synchronize) == 2  # with that behind the barriers' start
    assert count(kernel, FenceProxy) == 1
    assert count(kernel, CommitCopies) == 1
    waits = [s.pending for s in walk(kernel.body) if isinstance(s, AwaitCopies)]
    assert waits == [staging - 2, 0]


@pytest.mark.parametrize(
    ("product", "m", "n", "k"),
    [
        (SMALL, 70, 72, 200),
        (SMALL, 64, 64, 32),
        (replace(SMALL, stages=1, staging=3), 70, 72, 96),
        (replace(SMALL, stages=2, depth=16, chunk=16), 64, 64, 80),
    ],
)
def test_ordered_kernels_are_clean_and_right(product: Product, m: int, n: int, k: int) -> None:
    def ordered(_: Kernel) -> Kernel:
        return order(unordered_product(product))

    check_product(product, m, n, k, schedules=8, change=ordered)
