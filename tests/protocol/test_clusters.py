"""What the protocol check says of blocks that work together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support import cluster_kernels as sums
from tests.support import cluster_roles as roles
from tests.support.cluster_kernels import RowSum, without
from tests.support.cluster_roles import RoleSum
from warpsmith.errors import ProtocolError
from warpsmith.ir import integers
from warpsmith.ir.scalar import Const
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.clusters import AnnounceStart, AwaitStart, StoreRemote, SynchronizeCluster
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import If, Statement, Store, Synchronize
from warpsmith.kernel.rings import ArriveByWarp, Begin
from warpsmith.protocol import check
from warpsmith.targets.hopper import H200


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("way", ["push", "pull", "gather"])
def test_blocks_that_only_meet_pass(way: str, rows: int) -> None:
    assert check(RowSum(way, 4, rows).kernel(), {}, target=H200).steps > 0


@pytest.mark.parametrize("way", ["push", "pull", "gather"])
def test_a_meeting_that_the_block_itself_needs(way: str) -> None:
    with pytest.raises(ProtocolError, match="parts.*read before anything fills it") as failure:
        check(without(RowSum(way, 2).kernel(), sums.EXCHANGED), {}, target=H200)
    assert failure.value.code == "WS0907"


@pytest.mark.parametrize("way", ["push", "gather"])
def test_a_meeting_of_the_block_alone_is_none_of_the_cluster(way: str) -> None:
    kernel = RowSum(way, 2).kernel()
    with pytest.raises(ProtocolError, match="before what another wrote must be there") as failure:
        check(without(kernel, sums.EXCHANGED, Synchronize()), {}, target=H200)
    assert failure.value.code == "WS0907"


@pytest.mark.parametrize("blocks", [2, 5])
@pytest.mark.parametrize("way", ["release", "async"])
def test_blocks_may_arrive_and_send_where_others_wait(way: str, blocks: int) -> None:
    kernel = RowSum(way, blocks).kernel()
    assert check(kernel, {}, target=H200).steps > 0
    with pytest.raises(ProtocolError, match="threads of other blocks arrive") as failure:
        check(without(kernel, sums.WAIT, replace(sums.WAIT, of_cluster=False)), {}, target=H200)
    assert failure.value.code == "WS0920"


def test_threads_of_a_warp_arrive_together() -> None:
    with pytest.raises(ProtocolError, match="ArriveRemote under a condition that parts threads"):
        check(RowSum("arrive", 2).kernel(), {}, target=H200)


def bare_roles() -> Kernel:
    """The two roles without their bodies, between two meetings of the cluster."""
    kernel = RoleSum(2).kernel()
    body = tuple(replace(s, body=()) if isinstance(s, Branch) else s for s in kernel.body)
    return replace(kernel, body=body)


def test_waits_for_blocks_that_never_arrive() -> None:
    kernel = bare_roles()
    (branch,) = (s for s in kernel.body if isinstance(s, Branch) and s.agent.elected)
    body = (Begin(roles.USE), roles.FILLED)
    waiting = without(kernel, branch, replace(branch, body=body))
    with pytest.raises(ProtocolError, match="a wait for phase 0 never ends") as failure:
        check(waiting, {}, target=H200)
    assert failure.value.code == "WS0901"
    assert "collect" in str(failure.value)


def test_blocks_may_meet_before_and_after_roles() -> None:
    assert check(bare_roles(), {}, target=H200).steps > 0


def test_blocks_may_not_meet_inside_a_role() -> None:
    kernel = bare_roles()
    inside = tuple(
        replace(s, body=(SynchronizeCluster(),)) if isinstance(s, Branch) else s
        for s in kernel.body
    )
    with pytest.raises(ProtocolError, match="to meet inside a role") as failure:
        check(replace(kernel, body=inside), {}, target=H200)
    assert failure.value.code == "WS0911"


REACHED = StoreRemote(sums.SCRATCH, integers.ZERO, Const(0.0, sums.FLOAT), integers.ZERO)


def pushed(*starts: Statement) -> Kernel:
    """A kernel that exchanges once, with other statements in place of its first meeting."""
    return without(RowSum("push", 2).kernel(), sums.STARTED, *starts)


def test_a_start_is_announced_and_awaited() -> None:
    assert check(pushed(AnnounceStart(), AwaitStart()), {}, target=H200).steps > 0


@pytest.mark.parametrize(
    ("starts", "words"),
    [
        ((AwaitStart(),), "is awaited, and was not announced"),
        ((AwaitStart(), AnnounceStart()), "is awaited, and was not announced"),
        ((AnnounceStart(),), "is not awaited before blocks meet"),
        ((AnnounceStart(), AnnounceStart(), AwaitStart()), "is announced twice"),
        (
            (Store(sums.ARRIVED, integers.ZERO, integers.ZERO), AnnounceStart(), AwaitStart()),
            "is announced after shared memory is used",
        ),
        (
            (AnnounceStart(), REACHED, AwaitStart()),
            "is not awaited before a barrier is used, or another block is reached",
        ),
        (
            (AnnounceStart(), If(integers.less(sums.X, 1), (sums.WAIT,)), AwaitStart()),
            "is not awaited before a barrier is used, or another block is reached",
        ),
        (
            (AnnounceStart(), ArriveByWarp(sums.ARRIVED, integers.ZERO), AwaitStart()),
            "is not awaited before a barrier is used, or another block is reached",
        ),
        (
            (AnnounceStart(), If(integers.TRUE, (AwaitStart(),), uniform=True)),
            "is announced or awaited under a condition or in a loop",
        ),
    ],
)
def test_a_start_without_its_pair(starts: tuple[Statement, ...], words: str) -> None:
    with pytest.raises(ProtocolError, match=words) as failure:
        check(pushed(*starts), {}, target=H200)
    assert failure.value.code == "WS0911"


def test_a_start_that_is_never_awaited() -> None:
    kernel = RowSum("push", 2).kernel()
    with pytest.raises(ProtocolError, match="is never awaited"):
        check(replace(kernel, body=(AnnounceStart(),)), {}, target=H200)
