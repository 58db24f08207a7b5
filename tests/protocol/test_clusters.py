"""What the protocol check says of blocks that work together."""

from dataclasses import replace

import pytest

from tests.protocol.edits import edited, instead, refused
from tests.roles.test_cluster_rows import Rows
from tests.support.exchanged_sums import summed, values
from warpsmith.ir import integers
from warpsmith.ir.scalar import Symbol
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.clusters import (
    AnnounceStart,
    ArriveRemote,
    AwaitStart,
    ReleaseRemote,
    StoreAsync,
    SynchronizeCluster,
)
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import If, Statement, Store
from warpsmith.kernel.rings import ArriveByWarp, Await, InitBarriers
from warpsmith.kernel.traversal import walk
from warpsmith.protocol import check
from warpsmith.targets.hopper import H200

RIGHT, ROLES = summed(), Rows().kernel()
(SENT,) = (s for s in walk(RIGHT.body) if isinstance(s, StoreAsync))
(WAIT,) = (s for s in walk(RIGHT.body) if isinstance(s, Await))
FIRST = integers.less(Symbol("block_x", low=0), 1)


def test_threads_of_a_warp_arrive_together() -> None:
    def by_one(release: ReleaseRemote) -> Statement:
        return If(FIRST, (ArriveRemote(release.barrier, release.stage, release.ranks),))

    kernel = edited(ROLES, instead(ReleaseRemote, by_one))
    refused(kernel, {"T0_size0": 3}, words="ArriveRemote under a condition that parts threads")


@pytest.mark.parametrize("role", ["load", "compute"])
def test_blocks_may_not_meet_inside_a_role(role: str) -> None:
    meeting = instead(Branch, lambda s: replace(s, body=(*s.body, SynchronizeCluster())))
    kernel = edited(ROLES, meeting, role)
    refused(kernel, {"T0_size0": 3}, "WS0911", "to meet inside a role")


@pytest.mark.parametrize(
    ("kernel", "barrier", "words"),
    [
        (RIGHT, "exchange0_full", "threads of other blocks arrive, and the wait is for those"),
        (ROLES, "exchange0_empty", "arrive once they have read, and the wait is for their writes"),
    ],
)
def test_a_wait_is_of_those_whom_it_waits_for(kernel: Kernel, barrier: str, words: str) -> None:
    otherwise = instead(
        Await, lambda wait: replace(wait, of_cluster=not wait.of_cluster), barrier=barrier
    )
    refused(edited(kernel, otherwise), values(), "WS0920", words)


def started(*starts: Statement) -> Kernel:
    """The kernel with other statements where blocks announce their start, and await it."""
    first, *rest = (s for s in RIGHT.body if not isinstance(s, AnnounceStart | AwaitStart))
    place = next(k for k, s in enumerate(rest) if isinstance(s, InitBarriers)) + 1
    return replace(RIGHT, body=(first, *rest[:place], *starts, *rest[place:]))


def test_a_start_is_announced_and_awaited() -> None:
    assert check(started(AnnounceStart(), AwaitStart()), values(), target=H200).steps > 0


@pytest.mark.parametrize(
    ("starts", "words"),
    [
        ((AwaitStart(),), "is awaited, and was not announced"),
        ((AwaitStart(), AnnounceStart()), "is awaited, and was not announced"),
        ((AnnounceStart(), SynchronizeCluster()), "is not awaited before blocks meet"),
        ((AnnounceStart(), AnnounceStart(), AwaitStart()), "is announced twice"),
        (
            (Store(SENT.buffer, integers.ZERO, SENT.value), AnnounceStart(), AwaitStart()),
            "is announced after shared memory is used",
        ),
        (
            (AnnounceStart(), SENT, AwaitStart()),
            "is not awaited before a barrier is used, or another block is reached",
        ),
        (
            (AnnounceStart(), If(FIRST, (WAIT,)), AwaitStart()),
            "is not awaited before a barrier is used, or another block is reached",
        ),
        (
            (AnnounceStart(), ArriveByWarp(WAIT.barrier, integers.ZERO), AwaitStart()),
            "is not awaited before a barrier is used, or another block is reached",
        ),
        (
            (AnnounceStart(), If(integers.TRUE, (AwaitStart(),), uniform=True)),
            "is announced or awaited under a condition or in a loop",
        ),
    ],
)
def test_a_start_without_its_pair(starts: tuple[Statement, ...], words: str) -> None:
    refused(started(*starts), values(), "WS0911", words)


def test_a_start_that_is_never_awaited() -> None:
    refused(replace(RIGHT, body=(AnnounceStart(),)), values(), words="is never awaited")
