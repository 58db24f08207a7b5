"""Matrix products get their fences and groups, and release stages when their group is done."""

import pytest

from tests.support.lowered_products import SMALL, kernels
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Statement, Synchronize
from warpsmith.kernel.products import AwaitProducts, CommitProducts, FenceProducts, Multiply
from warpsmith.kernel.rings import ArriveByWarp, AwaitCopies, CommitCopies, FenceProxy
from warpsmith.kernel.traversal import walk


def along_k(kernel: Kernel) -> For:
    """The loop whose iterations multiply one stage."""
    (branch,) = [s for s in kernel.body if isinstance(s, Branch) and s.agent.name == "compute"]
    loops = [s for s in walk(branch.body) if isinstance(s, For)]
    return [s for s in loops if any(isinstance(i, Multiply) for i in walk(s.body))][1]


def products(statements: tuple[Statement, ...]) -> list[Statement]:
    return [s for s in statements if isinstance(s, FenceProducts | CommitProducts | AwaitProducts)]


def test_one_group_stays_on_its_way_from_iteration_to_iteration() -> None:
    loop = along_k(kernels(**SMALL)["order"])
    (sums,) = {s.accumulators for s in walk(loop.body) if isinstance(s, Multiply)}
    assert products(loop.body) == [FenceProducts((sums,)), CommitProducts(), AwaitProducts(1)]
    (late,) = [s for s in loop.body if isinstance(s, If)]
    assert late.uniform
    assert [type(s) for s in late.body] == [ArriveByWarp]
    assert not [s for s in loop.body if isinstance(s, ArriveByWarp)]


def test_behind_the_loop_all_products_are_awaited_once_and_the_last_stage_is_released() -> None:
    kernel = kernels(**SMALL)["order"]
    loop = along_k(kernel)
    (sums,) = {s.accumulators for s in walk(loop.body) if isinstance(s, Multiply)}
    (around,) = [s for s in walk(kernel.body) if isinstance(s, For) and loop in s.body]
    behind = around.body[around.body.index(loop) + 1 :]
    assert products(behind) == [AwaitProducts(0, (sums,))]
    assert behind[0] == AwaitProducts(0, (sums,))
    assert isinstance(behind[1], If)
    assert [type(s) for s in behind[1].body] == [ArriveByWarp]


@pytest.mark.parametrize("staging", [2, 3, 4])
def test_a_tile_is_staged_with_one_meeting_a_chunk(staging: int) -> None:
    kernel = kernels(**SMALL | {"chunk": 32, "store_stages": staging})["order"]

    def found(kind: type[Statement]) -> list[Statement]:
        return [s for s in walk(kernel.body) if isinstance(s, kind)]

    assert len(found(Synchronize)) == 2  # with that behind the barriers' start
    assert len(found(FenceProxy)) == 1
    assert len(found(CommitCopies)) == 1
    waits = [s.pending for s in walk(kernel.body) if isinstance(s, AwaitCopies)]
    assert waits == [staging - 2, 0]
