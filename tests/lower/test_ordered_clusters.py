"""Blocks of a cluster meet where one reaches into another's memory, and no more often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tests.protocol.edits import edited, instead
from tests.support.cluster_kernels import READY, RowSum, simulate_sum
from tests.support.cluster_kernels import X as THREAD
from tests.support.meeting_runs import Mutant, mutants
from warpsmith.ir import integers
from warpsmith.ir.scalar import Const
from warpsmith.kernel.clusters import (
    ArriveRemote,
    ReleaseRemote,
    StoreRemote,
    SynchronizeCluster,
)
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Element, For, If, Statement, Synchronize
from warpsmith.kernel.rings import InitBarriers
from warpsmith.kernel.traversal import children, walk
from warpsmith.lower.passes.order import order

SCHEDULES = 16


def apart(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    """The statements without meetings."""
    for statement in statements:
        if isinstance(statement, SynchronizeCluster):
            continue
        if children(statement):
            body = tuple(apart(children(statement)))
            statement = replace(statement, body=body)  # type: ignore[call-arg]
        yield statement


def ordered(case: RowSum) -> Kernel:
    kernel = case.kernel()
    return order(replace(kernel, body=tuple(apart(kernel.body))))


def clean(case: RowSum, kernel: Kernel) -> bool:
    report = simulate_sum(case, kernel, SCHEDULES)
    assert report.verdict != "incomplete"
    right = np.array_equal(report.arrays["Y"], case.expected(case.inputs()))
    return report.verdict == "clean" and right


def count(kernel: Kernel, kind: type[Statement]) -> int:
    """Statements of a kind, as they stand in the text."""
    return sum(isinstance(s, kind) for s in walk(kernel.body))


def of_clusters(kernel: Kernel) -> list[Mutant]:
    return [mutant for mutant in mutants(kernel) if mutant.name.startswith("SynchronizeCluster")]


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("way", ["push", "pull", "gather"])
def test_sums_of_rows_are_clean_and_no_meeting_may_be_left_out(way: str, rows: int) -> None:
    case = RowSum(way, 2, rows=rows)
    kernel = ordered(case)
    assert clean(case, kernel)
    assert [mutant.name for mutant in of_clusters(kernel) if clean(case, mutant.kernel)] == []


def test_a_pass_over_rows_has_two_meetings_and_one_around_it() -> None:
    """One before a block may write its sum anew, one before the sums are read, and the last."""
    kernel = ordered(RowSum("pull", 2, rows=3))
    (loop,) = [s for s in kernel.body if isinstance(s, For)]
    assert sum(isinstance(s, SynchronizeCluster) for s in walk(loop.body)) == 2
    assert isinstance(kernel.body[-1], SynchronizeCluster)
    assert count(kernel, SynchronizeCluster) == 3


def test_the_meeting_at_the_start_serves_the_cluster_too() -> None:
    case = RowSum("push", 2)
    sent = StoreRemote(case.parts, case.rank, Const(1.0, case.parts.dtype), THREAD)
    start = (InitBarriers(()), READY, If(integers.less(THREAD, 2), (sent,)))
    kernel = order(replace(case.kernel(), body=start))
    assert count(kernel, Synchronize) == 0
    assert [type(s) for s in kernel.body] == [
        InitBarriers,
        SynchronizeCluster,
        If,
        SynchronizeCluster,
    ]


@pytest.mark.parametrize("way", ["arrive", "release"])
def test_arrivals_of_readers_publish_no_sums(way: str) -> None:
    case = RowSum(way, 2)
    kernel = case.kernel()
    assert clean(case, kernel)
    kind = ArriveRemote if way == "arrive" else ReleaseRemote
    of_readers = instead(kind, lambda s: replace(s, of_readers=True))
    assert not clean(case, edited(kernel, of_readers))


def test_a_meeting_behind_the_first_access_is_too_late_for_the_start() -> None:
    case = RowSum("push", 2)
    sent = StoreRemote(case.parts, case.rank, Element(case.parts, case.rank), THREAD)
    around = If(integers.TRUE, (If(integers.less(THREAD, 2), (sent,)),), uniform=True)
    kernel = order(replace(case.kernel(), body=(around, READY)))
    assert [type(s) for s in kernel.body] == [
        SynchronizeCluster,
        If,
        Synchronize,
        SynchronizeCluster,
    ]
