"""One proxy fence for a staged tile, by those who wrote it, outside the loop that stores it.

nvFuser's pull request 4810 shows the two forms: a fence before each store of the loop, behind the
barrier; and one behind the barrier, of the storing warp. Here threads that wrote fence themselves,
before they meet; where only one warp, or one thread, wrote, it alone does.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.support.by_hand import kernel_of, launch_of
from tests.support.meeting_parts import HALF, TILE, Body, Place, stored, stored_by_tma
from tests.support.meeting_runs import mutants
from tests.support.simulating import reported
from warpsmith.codegen.cuda import cuda_text
from warpsmith.ir import integers
from warpsmith.ir.scalar import Const, Expr, Symbol
from warpsmith.kernel.agents import Agent, Branch
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Statement, Synchronize
from warpsmith.kernel.pipelines import Content, Drain, Pipeline
from warpsmith.kernel.rings import ELECTED, AwaitCopies, CommitCopies, FenceProxy, TileCopy
from warpsmith.kernel.traversal import replace_symbols, walk
from warpsmith.lower.passes.collect_maps import collect_maps
from warpsmith.lower.passes.lay_out_shared import lay_out_shared
from warpsmith.lower.passes.lower_pipelines import lower_pipelines
from warpsmith.lower.passes.order import order
from warpsmith.lower.pipelines.stages import moved
from warpsmith.ops.scalars import numpy_dtype
from warpsmith.targets.hopper import H200

BOXES, TURNS, SCHEDULES = 4, 3, 16
"""Boxes of a staged tile, each with a store of its own; tiles."""

PLACE = Place(stages=BOXES, turns=BOXES * TURNS)
TURN, BOX, THREAD = Symbol("i0", low=0), Symbol("i56", low=0), Symbol("t", low=0)
OWN = Symbol("block_x", low=0, extent=Const(128))


Maker = Callable[[], Kernel]


def boxes(statements: Body) -> For:
    """What is done to each box of a tile; the listings unroll it."""
    body = moved(statements, {"S": integers.mul(BOX, TILE)})
    return For(BOX, Const(BOXES), body, unroll=True)


def number() -> Expr:
    return integers.add(integers.mul(TURN, BOXES), BOX)


def staged(write: Body, threads: int, agent: Agent | None = None) -> Kernel:
    """Tiles that are staged by `write`, and stored by the TMA unit."""
    contents = (Content(PLACE.shared, BOXES * TILE),)
    drain = Drain("S", (boxes(stored_by_tma(PLACE, number())),))
    loop = For(TURN, Const(TURNS), (*write, drain), unroll=False, pipelines=("S",))
    kernel = kernel_of(
        loop if agent is None else Branch(agent, (loop,)),
        launch=launch_of(threads),
        parameters=(PLACE.given, PLACE.results),
        shared=(PLACE.shared,),
        exchanged=frozenset(("S",)),
        pipelines=(Pipeline(name="S", stages=1, contents=contents),),
    )
    return lay_out_shared(collect_maps(order(lower_pipelines(kernel))))


def by_all() -> Kernel:
    return staged((boxes(stored(PLACE, number())),), 128)


def by_few(threads: int) -> For:
    """The same stores by fewer threads, each in the place of several."""
    count = 128 // threads
    index = integers.add(integers.mul(OWN, count), THREAD) if threads > 1 else THREAD
    all_of_it = boxes(stored(PLACE, number()))
    body = tuple(replace_symbols(statement, {OWN: index}) for statement in all_of_it.body)
    return replace(all_of_it, body=(For(THREAD, Const(count), body, unroll=False),))


def by_one() -> Kernel:
    return staged((If(ELECTED, (by_few(1),)),), 128)


def by_warp() -> Kernel:
    agent = Agent("store", 0, (Const(32), integers.ONE, integers.ONE), barrier=1)
    return staged((by_few(32),), 32, agent)


def clean(kernel: Kernel) -> bool:
    """Whether the simulator has nothing to say, and all boxes are where they belong."""
    x = np.random.default_rng(1).integers(-9, 9, PLACE.turns * TILE).astype(numpy_dtype(HALF))
    report = reported(kernel, {}, {"X": x}, schedules=SCHEDULES)
    assert report.verdict != "incomplete"
    return report.verdict == "clean" and bool(np.array_equal(report.arrays["Y"], x))


def loop_of(kernel: Kernel) -> For:
    """The loop over tiles."""
    return next(s for s in walk(kernel.body) if isinstance(s, For) and s.symbol == TURN)


def kinds(statements: Body) -> list[type[Statement]]:
    return [type(statement) for statement in statements]


@pytest.mark.parametrize("make", [by_all, by_one, by_warp])
def test_the_store_loop_holds_stores_only(make: Maker) -> None:
    kernel = make()
    assert sum(isinstance(s, FenceProxy) for s in walk(kernel.body)) == 1
    (inner,) = [
        s
        for s in walk(kernel.body)
        if isinstance(s, For) and any(isinstance(i, TileCopy) for i in s.body)
    ]
    assert kinds(inner.body) == [TileCopy]


def test_where_all_threads_wrote_each_fences_before_they_meet() -> None:
    wait, free, write, fence, meeting, store = loop_of(by_all()).body
    assert wait == If(ELECTED, (AwaitCopies(bulk=True),))
    assert kinds((free, write, fence, meeting)) == [Synchronize, For, FenceProxy, Synchronize]
    assert isinstance(store, If)
    assert store.condition == ELECTED
    assert kinds(store.body) == [For, CommitCopies]


def test_where_one_thread_wrote_it_alone_fences_and_nobody_meets() -> None:
    kernel = by_one()
    wait, one = loop_of(kernel).body
    assert wait == If(ELECTED, (AwaitCopies(bulk=True),))
    assert isinstance(one, If)
    assert one.condition == ELECTED
    assert kinds(one.body) == [For, FenceProxy, For, CommitCopies]
    assert not any(isinstance(s, Synchronize) for s in walk(kernel.body))


def test_where_one_warp_wrote_it_alone_fences_and_only_its_lanes_meet() -> None:
    kernel = by_warp()
    assert kinds(loop_of(kernel).body) == [If, Synchronize, For, FenceProxy, Synchronize, If]
    text = cuda_text(kernel, H200)
    assert text.count("__syncwarp();  // S is ") == 2
    assert "__syncthreads();" not in text[text.index('extern "C"') :]


@pytest.mark.parametrize(
    ("make", "neutral"),
    [
        (by_all, []),
        (by_one, []),
        # Before what one lane does its warp converges anyway, by `__syncwarp` once more.
        (by_warp, ["Synchronize 1 removed"]),
    ],
)
def test_it_is_clean_and_nothing_may_be_left_out(make: Maker, neutral: list[str]) -> None:
    kernel = make()
    assert clean(kernel)
    assert [mutant.name for mutant in mutants(kernel) if clean(mutant.kernel)] == neutral
