"""Every edge of a kernel is listed with what orders it, and with the lines that this became."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.support import ring_maps as maps
from tests.support import role_chains as chains
from tests.support.lowered_products import SMALL, kernels, product_kernel
from tests.support.lowering import lowered
from tests.support.ring_loads import Kind, Ring
from tests.support.role_feeds import Feed
from tests.support.tiling import Tiling, storing
from warpsmith import FusionDefinition, LoadStoreOpType, ParallelType
from warpsmith.codegen.cuda import printed
from warpsmith.engine.sync_facts import sync_lines
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Statement, Synchronize
from warpsmith.kernel.products import AwaitProducts, CommitProducts, FenceProducts
from warpsmith.kernel.rings import (
    Arrive,
    ArriveByWarp,
    Await,
    AwaitCopies,
    CommitCopies,
    FenceProxy,
    InitBarriers,
)
from warpsmith.kernel.traversal import walk
from warpsmith.lower.passes.order import order
from warpsmith.targets.hopper import H200

TMA = LoadStoreOpType.tma

ORDERING = (
    Arrive,
    Await,
    AwaitCopies,
    AwaitProducts,
    CommitCopies,
    CommitProducts,
    FenceProducts,
    FenceProxy,
    InitBarriers,
    ArriveByWarp,
    Synchronize,
)


KERNELS: dict[str, Callable[[], Kernel]] = {
    "a product": lambda: product_kernel(**SMALL),
    "a ring by TMA": lambda: lowered(maps.single_dim_1(Ring(Kind.tma, 3, 2))),
    "a ring by cp.async": lambda: lowered(maps.outer_loop(Ring(Kind.cp_async, 4, 2))),
    "a store ring": lambda: lowered(storing(Tiling((8, 16)), stages=3, load=TMA, load_stages=2)),
    "one stage of each": lambda: lowered(storing(Tiling((8, 16)), load=TMA)),
    "a role that stores": lambda: lowered(chains.stored_by_role(Feed(Kind.tma, 3))),
    "loads straight to stores": lambda: lowered(chains.copied(Feed(Kind.tma, 4))),
    "threads that fill": lambda: lowered(chains.transformed(Feed(Kind.cp_async, 2), stores=True)),
}


def ordering(kernel: Kernel) -> list[Statement]:
    return [s for s in walk(kernel.body) if isinstance(s, ORDERING)]


@pytest.mark.parametrize("name", KERNELS)
def test_nothing_stands_there_that_no_edge_asks_for(name: str) -> None:
    kernel = KERNELS[name]()
    listed = {number for each in kernel.orders for number in each.statements}
    found = ordering(kernel)
    assert found
    assert [s for s in found if s.number not in listed] == []


@pytest.mark.parametrize("name", KERNELS)
def test_every_statement_of_an_edge_has_its_lines(name: str) -> None:
    kernel = KERNELS[name]()
    placed = {number for number, _ in printed(kernel, H200).places}
    for each in kernel.orders:
        assert set(each.statements) <= placed, each
        assert bool(each.statements) == (each.mechanism != "none"), each


def test_a_product_in_words() -> None:
    lines = sync_lines(product_kernel(**SMALL), H200)
    text = "\n".join(lines)
    start = lines.index("  edge        T8: read after write, straight on")
    assert lines[start + 1 : start + 4] == [
        "    first     compute: stmatrix writes (generic)",
        "    then      compute: TMA store reads (async)",
        "    by        proxy fence + named barrier 1: the other proxy would not see it; "
        "other threads wrote it",
    ]
    assert [line.split(maxsplit=2)[2] for line in lines[start + 4 : start + 6]] == [
        "ws_fence_async();",
        "ws_meet(1, 128);  // T8 is written",
    ]
    assert "mbarrier ring0_full: no fence: both by the async proxy" in text
    assert "product group, 1 may be open" in text
    assert "by        wgmma fence" in text


def test_lines_are_those_of_the_text() -> None:
    kernel = product_kernel(**SMALL)
    text = printed(kernel, H200).named(kernel.name).splitlines()
    quoted = [
        line.split(maxsplit=2) for line in sync_lines(kernel, H200) if line.startswith("    line ")
    ]
    assert quoted
    assert all(text[int(number) - 1].strip() == words for _, number, words in quoted)


def test_the_same_is_the_order_of_an_ordered_kernel() -> None:
    kernel = kernels(**SMALL)["order"]
    assert order(kernel) is kernel


def test_threads_that_read_what_they_wrote_need_nothing() -> None:
    kernel = lowered(maps.single_dim_1(Ring(Kind.shared, 3, 2)))
    assert {each.mechanism for each in kernel.orders} == {"none"}
    assert {each.why for each in kernel.orders} == {"each thread reads what it wrote itself"}


def reversed_in_blocks() -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        y = fd.ops.neg(x)
        fd.add_output(y)
    tile = Ring(Kind.tma, 3, 2).load(x)
    y.split(0, 64)
    fd.sched.transform_like(y)
    fd.sched.inline_at(y, 1, selected_tensors=[tile])
    tile.axis(-1).parallelize(ParallelType.tma)
    y.axis(-1).parallelize(ParallelType.block_x)
    return fd


def test_explain_lists_edges_when_asked() -> None:
    fd = reversed_in_blocks()
    fd.manual_execute([np.ones(640, np.float32)])
    short, long = fd.explain(), fd.explain(sync=True)
    assert "edge" not in short
    assert long.startswith(short.rstrip("\n"))
    assert "by        proxy fence + mbarrier ring0_empty: the thread that fills anew" in long
    assert "a load's end implies the fence" in long
