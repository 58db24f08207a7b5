"""Clusters in CUDA text: right and clean on the simulator, and nothing in them is superfluous."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support import cluster_kernels as sums
from tests.support import cluster_roles as roles
from tests.support.cluster_kernels import WAIT, WAYS, RowSum, X, simulate_sum, without
from tests.support.cluster_roles import RoleSum, simulate_roles
from tests.support.simulating import Contents, reported
from warpsmith.codegen.cuda import cuda_text
from warpsmith.errors import InternalError
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Symbol
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.clusters import (
    LoadRemote,
    ReleaseRemote,
    StoreAsync,
    StoreRemote,
    SynchronizeCluster,
    rank_in,
)
from warpsmith.kernel.kernel import Kernel, Launch
from warpsmith.kernel.nodes import Buffer, Declare, Element, If, Statement, Store, Synchronize
from warpsmith.kernel.rings import ELECTED, Expect, InitBarriers
from warpsmith.kernel.traversal import walk
from warpsmith.kernel.waits import WaitSite, WatchedAwait
from warpsmith.lower.passes.lay_out_shared import lay_out_shared
from warpsmith.ops.scalars import numpy_dtype
from warpsmith.targets.hopper import H200

ZERO, ONE = integers.ZERO, integers.ONE
MEETINGS = ("push", "pull", "gather")
"""Ways in which only the cluster's barrier orders anything."""


def check_sum(case: RowSum, kernel: Kernel | None = None) -> None:
    report = simulate_sum(case, kernel or case.kernel())
    assert report.verdict == "clean", str(report)
    np.testing.assert_array_equal(report.arrays["Y"], case.expected(case.inputs()))


# --- sums of rows ------------------------------------------------------------------------------


@pytest.mark.few(8)
@pytest.mark.parametrize("blocks", [2, 4])
@pytest.mark.parametrize("way", WAYS)
def test_rows_over_blocks(way: str, blocks: int) -> None:
    check_sum(RowSum(way, blocks))


@pytest.mark.parametrize("way", MEETINGS)
def test_several_rows_in_the_same_place(way: str) -> None:
    check_sum(RowSum(way, 2, rows=3))


def test_as_many_blocks_as_there_can_be() -> None:
    check_sum(RowSum("push", 16))


LEFT_OUT = [
    pytest.param(way, rows, meeting, id=f"{way}-{rows}-{meeting.why}")
    for way in WAYS
    for rows in ((1, 2) if way in MEETINGS else (1,))
    for meeting in (sums.STARTED, sums.EXCHANGED, sums.READ)
    if meeting in walk(RowSum(way, 2, rows).kernel().body)
]


@pytest.mark.parametrize(("way", "rows", "meeting"), LEFT_OUT)
def test_each_meeting_of_the_cluster_is_missed(
    way: str, rows: int, meeting: SynchronizeCluster
) -> None:
    """Three schedules show it, also where the threads of each block meet instead."""
    case = RowSum(way, 2, rows)
    for instead in ((), (Synchronize("of the block"),)):
        report = simulate_sum(case, without(case.kernel(), meeting, *instead), schedules=3)
        assert report.verdict == "findings"
        kinds = {finding.kind for finding in report.findings}
        if meeting == sums.STARTED:
            assert "has not started" in str(report) or "missing-init-fence" in kinds
        elif meeting == sums.EXCHANGED or rows == 2:
            assert "race" in kinds
        else:
            assert "exit-outstanding" in kinds


@pytest.mark.parametrize("way", ["arrive", "release", "async"])
def test_waits_for_other_blocks_are_missed(way: str) -> None:
    case = RowSum(way, 2)
    report = simulate_sum(case, without(case.kernel(), WAIT), schedules=3)
    assert "race" in {finding.kind for finding in report.findings}


@pytest.mark.parametrize("way", ["arrive", "release"])
def test_waits_are_of_the_whole_cluster(way: str) -> None:
    """A wait of the block's own scope sees the phase, and nothing that other blocks wrote."""
    case = RowSum(way, 2)
    kernel = without(case.kernel(), WAIT, replace(WAIT, of_cluster=False))
    report = simulate_sum(case, kernel, schedules=3)
    assert "race" in {finding.kind for finding in report.findings}


def test_watched_waits() -> None:
    case = RowSum("arrive", 2)
    site = WaitSite(0, "", "ring0", ("parts",), True, "")
    given = (WAIT.barrier, WAIT.stage, WAIT.parity)
    watched = WatchedAwait(*given, site, 10**9, of_cluster=True)
    kernel = without(case.kernel(), WAIT, watched)
    assert "ws_cluster_wait(arrived, 0, 0, 0, 1000000000ull);" in cuda_text(kernel, H200)
    check_sum(case, kernel)


# --- roles -------------------------------------------------------------------------------------


@pytest.mark.parametrize("blocks", [2, 4])
def test_roles_of_several_blocks(blocks: int) -> None:
    case = RoleSum(blocks)
    report = simulate_roles(case, case.kernel())
    assert report.verdict == "clean", str(report)
    np.testing.assert_array_equal(report.arrays["Y"], case.expected(case.inputs()))


@pytest.mark.parametrize(
    ("statement", "new", "kind"),
    [
        (roles.STARTED, (), "missing-init-fence"),
        (roles.ENDED, (), "exit-outstanding"),
        (roles.FREE, (), "race"),
        (roles.FILLED, (), "race"),
        (roles.FREE, (replace(roles.FREE, of_cluster=False),), "race"),
        (roles.FILLED, (replace(roles.FILLED, of_cluster=False),), "race"),
    ],
)
def test_what_roles_need(statement: Statement, new: tuple[Statement, ...], kind: str) -> None:
    case = RoleSum(2)
    report = simulate_roles(case, without(case.kernel(), statement, *new))
    assert kind in {finding.kind for finding in report.findings}


def test_waiting_threads_must_keep_phases_back() -> None:
    """Warps that wait for free places, and store nothing, may see the phase after the next one."""
    case = RoleSum(2)
    kernel = case.kernel()
    (sending,) = (s for s in walk(kernel.body) if isinstance(s, If) and roles.FREE in s.body)
    bare = replace(sending, body=tuple(s for s in sending.body if s != roles.FREE))
    report = simulate_roles(case, without(kernel, sending, roles.FREE, bare))
    assert "deadlock" in {finding.kind for finding in report.findings}


# --- types and ranks ---------------------------------------------------------------------------


def rotating(dtype: DataType, how: str) -> Kernel:
    """Each block of a cluster of three passes its element to the next one, or gets the last one's.

    Thread x has element x of the block.
    """
    launch = Launch((Const(3), ONE, ONE), (Const(32), ONE, ONE), cluster=(3, 1, 1))
    rank = rank_in(launch)
    x, y = (Buffer(n, dtype, MemoryType.global_, Const(96), n == "Y") for n in "XY")
    tile = Buffer("tile", dtype, MemoryType.shared, Const(32))
    barrier = Buffer("barrier", DataType.Int, MemoryType.shared, ONE)
    got = Buffer("got", dtype, MemoryType.local, ONE)
    place = integers.add(integers.mul(rank, 32), X)
    here, there = Element(tile, X), Element(x, place)
    following = integers.mod(integers.add(rank, 1), 3)
    started, passed = SynchronizeCluster("started"), SynchronizeCluster("passed")
    wait = replace(WAIT, barrier=barrier)
    body: tuple[Statement, ...] = {
        "store": (started, StoreRemote(tile, X, there, following), passed, Store(y, place, here)),
        "load": (
            Store(tile, X, there),
            started,
            Declare(got),
            LoadRemote(got, ZERO, tile, X, integers.mod(integers.add(rank, 2), 3)),
            Store(y, place, Element(got, ZERO)),
            passed,
        ),
        "async": (
            InitBarriers(((barrier, ONE),)),
            If(ELECTED, (Expect(barrier, ZERO, Const(32 * dtype.size)),)),
            started,
            StoreAsync(tile, X, there, following, barrier, ZERO),
            wait,
            Store(y, place, here),
        ),
    }[how]
    return kernel_of((x, y), (tile, barrier), body, launch)


def kernel_of(
    parameters: tuple[Buffer, ...],
    shared: tuple[Buffer, ...],
    body: tuple[Statement, ...],
    launch: Launch,
) -> Kernel:
    return lay_out_shared(
        Kernel(
            name="k",
            parameters=parameters,
            scalars=(),
            shared=shared,
            body=body,
            launch=launch,
            index_type=DataType.Int32,
        )
    )


TYPES = [d for d in DataType if d is not DataType.Index]
PASSED = [
    pytest.param(dtype, how, id=f"{how}-{dtype.value}")
    for how in ("store", "load", "async")
    for dtype in TYPES
    if how != "async" or dtype.size in (4, 8)
]


@pytest.mark.few(8)
@pytest.mark.parametrize(("dtype", "how"), PASSED)
def test_elements_of_every_type(dtype: DataType, how: str) -> None:
    bits = np.random.default_rng(0).integers(0, 2, 96)
    x = (bits if dtype is DataType.Bool else bits * 55 - 11).astype(numpy_dtype(dtype))
    memory = {
        "X": Contents(x, np.full(96, True)),
        "Y": Contents(np.zeros_like(x), np.full(96, False)),
    }
    report = reported(rotating(dtype, how), {}, memory, schedules=4)
    assert report is not None
    assert report.verdict == "clean", str(report)
    np.testing.assert_array_equal(report.arrays["Y"], np.roll(x.reshape(3, 32), 1, 0).reshape(-1))


def test_ranks_count_x_fastest() -> None:
    """A cluster of 2 x 3 x 2 blocks in a grid of 4 x 3 x 4; each block tells its rank."""
    grid, cluster = (4, 3, 4), (2, 3, 2)
    gx, gy, gz = (Symbol(f"grid_{axis}", low=0) for axis in "xyz")
    y = Buffer("Y", DataType.Int32, MemoryType.global_, Const(48))
    place = integers.add(gx, integers.mul(gy, 4), integers.mul(gz, 12))
    launch = Launch(tuple(map(Const, grid)), (ONE, ONE, ONE), cluster=cluster)
    rank = Apply("cast", (rank_in(launch),), DataType.Int32)
    kernel = kernel_of((y,), (), (Store(y, place, rank),), launch)
    memory = {"Y": Contents(np.zeros(48, np.int32), np.full(48, False))}
    report = reported(kernel, {}, memory, schedules=1)
    assert report is not None
    assert report.verdict == "clean", str(report)
    z, row, x = np.indices((4, 3, 4))
    np.testing.assert_array_equal(
        report.arrays["Y"].reshape(4, 3, 4), x % 2 + 2 * (row % 3 + 3 * (z % 2))
    )


# --- text and refusals -------------------------------------------------------------------------


def test_the_text_of_a_launch() -> None:
    text = cuda_text(RowSum("push", 4).kernel(), H200)
    assert "void __cluster_dims__(4, 1, 1) __launch_bounds__(64) row_sums(" in text
    assert text.count("ws_cluster_rank();") == 1
    assert text.count("  ws_cluster_meet();  // ") == 2


def in_launch(kernel: Kernel, cluster: tuple[int, int, int]) -> Kernel:
    return replace(kernel, launch=replace(kernel.launch, cluster=cluster))


def in_role(number: int, statement: Statement) -> Kernel:
    """The statement as the last one of a role."""
    kernel = RoleSum(2).kernel()
    branch = kernel.body[2 + number]
    assert isinstance(branch, Branch)
    return without(kernel, branch, replace(branch, body=(*branch.body, statement)))


MEET = SynchronizeCluster("again")
REFUSED = {
    "too many blocks": (
        lambda: in_launch(RowSum("push", 2).kernel(), (17, 1, 1)),
        "runs no cluster",
    ),
    "no blocks": (lambda: in_launch(RowSum("push", 2).kernel(), (2, 0, 1)), "runs no cluster of"),
    "no cluster": (
        lambda: in_launch(RowSum("push", 2).kernel(), (1, 1, 1)),
        "SynchronizeCluster in a launch without clusters",
    ),
    "in a role": (lambda: in_role(1, MEET), "for all threads, and stands in a role"),
    "in one thread": (lambda: in_role(0, MEET), "for all threads, and stands in a role"),
    "warps in one thread": (
        lambda: in_role(0, ReleaseRemote(roles.FULL, ZERO, (ZERO,))),
        "ReleaseRemote is for warps",
    ),
    "registers": (
        lambda: without(
            RowSum("pull", 2).kernel(),
            sums.EXCHANGED,
            StoreRemote(sums.SUM, ZERO, Const(0.0, DataType.Float), ZERO),
        ),
        "sum is not in shared memory",
    ),
    "two bytes": (lambda: rotating(DataType.Half, "async"), "no 4 or 8 bytes"),
    "before the roles' end": (
        lambda: replace(kernel := RoleSum(2).kernel(), body=(*kernel.body, MEET)),
        "statements follow the branch of a role",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    make, words = REFUSED[name]
    with pytest.raises(InternalError, match=words):
        cuda_text(make(), H200)
