"""Pipelines: what each carrier becomes in each scope, and where the four verbs stand."""

from dataclasses import replace
from itertools import product

import pytest

from tests.support.lowering import lowered
from tests.support.meeting_kernels import Meeting, planned_kernel, unordered_kernel
from tests.support.meeting_runs import objections
from tests.support.ping_pong_products import ping_pong_product
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Const, evaluate
from warpsmith.kernel.agents import Agent, Branch
from warpsmith.kernel.clusters import RANK, ArriveRemote, ReleaseRemote
from warpsmith.kernel.nodes import Buffer, For, If, Statement
from warpsmith.kernel.pipelines import (
    Acquire,
    By,
    Commit,
    Content,
    Groups,
    Pipeline,
    Release,
    Scope,
    Wait,
    with_contents,
)
from warpsmith.kernel.printer import kernel_text, text_of
from warpsmith.kernel.rings import Advance
from warpsmith.kernel.traversal import walk
from warpsmith.lower.passes.lower_pipelines import lower_pipelines
from warpsmith.lower.pipelines.mechanisms import MECHANISMS
from warpsmith.lower.pipelines.role_pipelines import joined, placed
from warpsmith.lower.pipelines.software import Loops

VERBS = Acquire | Commit | Wait | Release
TILE = Buffer("T1", DataType.Float, MemoryType.shared, Const(96), guarded=True)
RING = Pipeline(name="ring0", stages=3, contents=(Content(TILE, 32),), by=By.TMA)
BETWEEN = replace(RING, producer="load", consumers=("compute",))


def told(statements: tuple[Statement, ...]) -> list[str]:
    """Verbs, loops and cursors, each behind what it stands in."""
    kinds = (Acquire, Commit, Wait, Release, For, If, Advance)
    return [text_of(s).split("[")[0] for s in walk(statements) if isinstance(s, kinds)]


# --- the value ---------------------------------------------------------------------------------


def test_barriers_follow_from_the_pipeline() -> None:
    assert [b.name for b in RING.barriers] == ["ring0_full", "ring0_empty"]
    assert {b.size for b in RING.barriers} == {Const(3)}
    assert [b.name for b in replace(RING, reused=False).barriers] == ["ring0_full"]
    assert replace(RING, by=By.COPIES).barriers == ()
    assert len(replace(BETWEEN, by=By.COPIES).barriers) == 2


def test_an_order_has_a_barrier_a_group_and_no_contents() -> None:
    order = Pipeline(name="main", stages=2, by=By.NOTHING, producer="mma", consumers=("mma",))
    assert [b.name for b in order.barriers] == ["main_turn"]
    assert with_contents((RING, order)) == (RING,)


def test_groups_that_only_follow_each_other_own_no_stages() -> None:
    groups = Groups(2, roles=("compute",))
    assert replace(BETWEEN, groups=groups).owners == 2
    assert replace(BETWEEN, groups=replace(groups, owned=False)).owners == 1


# --- the table ---------------------------------------------------------------------------------


def test_every_carrier_has_a_mechanism_in_every_scope_that_it_can_have() -> None:
    impossible = {(By.REGISTERS, Scope.BLOCK), (By.NOTHING, Scope.AGENT)}
    impossible |= {(By.SENDS, Scope.AGENT), (By.SENDS, Scope.BLOCK)}
    impossible |= {(by, Scope.CLUSTER) for by in By if by not in (By.TMA, By.SENDS)}
    assert set(MECHANISMS) == set(product(By, Scope)) - impossible


@pytest.mark.parametrize("pipeline", [RING, BETWEEN, replace(BETWEEN, by=By.THREADS)])
def test_what_waits_has_somebody_who_arrives(pipeline: Pipeline) -> None:
    mechanism = MECHANISMS[pipeline.by, pipeline.scope]
    stage = Const(1)
    full = mechanism.wait(pipeline, Wait("ring0", stage, Const(0)))
    empty = mechanism.acquire(pipeline, Acquire("ring0", stage, Const(1)))
    assert [text_of(s) for s in (*full, *empty)] == [
        "await ring0_full[1] parity 0",
        "await ring0_empty[1] parity 1",
    ]
    freed = mechanism.release(pipeline, Release("ring0", stage), None)
    filled = mechanism.commit(pipeline, Commit("ring0", stage), None)
    assert [text_of(s) for s in freed] == ["arrive at ring0_empty[1], once a warp"]
    assert pipeline.counts_bytes == (not filled)  # bytes end the phase, or arrivals do


def test_a_stage_of_a_cluster_is_released_where_it_is_filled_from() -> None:
    """In a cluster of four, two by two: blocks of a row share one tile, of a column another."""
    rows, columns = ((0, 1), (2, 3)), ((0, 2), (1, 3))
    contents = (Content(TILE, 32, rows), Content(replace(TILE, name="T2"), 32, columns))
    ring = replace(BETWEEN, contents=contents)
    assert ring.scope is Scope.CLUSTER
    assert ring.peers == ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3))
    mechanism = MECHANISMS[ring.by, ring.scope]
    (free,) = mechanism.acquire(ring, Acquire("ring0", Const(1), Const(1)))
    assert text_of(free) == "await ring0_empty[1] parity 1"
    thread = Agent("store", 0, (Const(1),) * 3, elected=True)
    for role, kind in ((None, ReleaseRemote), (thread, ArriveRemote)):
        (freed,) = mechanism.release(ring, Release("ring0", Const(1)), role)
        assert isinstance(freed, kind)
        for own, peers in enumerate(ring.peers):
            assert tuple(evaluate(rank, {RANK: own}) for rank in freed.ranks) == peers


# --- places ------------------------------------------------------------------------------------


def test_a_loop_fills_ahead_of_its_use() -> None:
    kernel = unordered_kernel(Meeting(writer="TMA load", reader="load", stages=3, ahead=2))
    loops = Loops({each.name: each for each in kernel.pipelines})
    assert told(loops.statements(kernel.body)) == [
        "for i0p < 2",
        "acquire ring0",
        "commit ring0",
        "advance ring0_fill",
        "for i0 < 4",
        "if lt(add(i0, 2), 4)",
        "acquire ring0",
        "commit ring0",
        "advance ring0_fill",
        "wait ring0",
        "release ring0",
        "advance ring0_use",
    ]


def test_the_first_fills_wait_for_nobody_but_in_a_loop_that_comes_again() -> None:
    kernel = unordered_kernel(Meeting(writer="TMA load", reader="load", stages=3, ahead=2))
    given = {each.name: each for each in kernel.pipelines}
    once = Loops(given).statements(kernel.body)
    again = Loops(given).statements(kernel.body, inside=True)
    first, later = ([s.parity for s in walk(b) if isinstance(s, Acquire)] for b in (once, again))
    assert [parity is None for parity in first] == [True, False]
    assert [parity is None for parity in later] == [False, False]


def test_roles_say_the_verbs_of_their_end() -> None:
    kernel = unordered_kernel(Meeting(writer="TMA load", reader="load", stages=2, roles=True))
    branches = [s for s in kernel.body if isinstance(s, Branch)]
    (pipeline,) = joined(branches, {each.name: each for each in kernel.pipelines})
    assert (pipeline.name, pipeline.names) == ("ring0", ("S",))
    write, read = (placed(branch, (pipeline,)) for branch in branches)
    loop = "for i0 < 4"
    assert told(write.body) == [loop, "acquire ring0", "commit ring0", "advance ring0_write"]
    assert told(read.body) == [loop, "wait ring0", "release ring0", "advance ring0_read"]


def test_no_verb_is_left() -> None:
    for fd in (ping_pong_product(), ping_pong_product(held="one", allocated="one")):
        kernel = lowered(fd)
        assert not [s for s in walk(kernel.body) if isinstance(s, VERBS)]
        assert "pipe   compute_main: 2 stages of nothing by nothing" in kernel_text(kernel)


def test_a_kernel_without_pipelines_stays_as_it_is() -> None:
    kernel = unordered_kernel(Meeting(writer="store", reader="load"))
    assert lower_pipelines(kernel) is kernel


def test_what_one_thread_loads_and_stores_lies_in_one_stage() -> None:
    """Its stage was added twice, once for the load and once for the store."""
    meeting = Meeting(writer="TMA load", reader="TMA store", stages=2, ahead=1)
    assert objections(meeting, planned_kernel(meeting)) == []
