"""Blocks of a cluster know that all have started before one sends to another, and end together."""

from dataclasses import replace

from tests.support.exchanged_sums import summed
from warpsmith.ir import integers
from warpsmith.ir.scalar import Symbol
from warpsmith.kernel.clusters import StoreAsync, SynchronizeCluster
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import If, Statement, Synchronize
from warpsmith.kernel.rings import InitBarriers
from warpsmith.kernel.traversal import walk
from warpsmith.lower.passes.order import order

READY = Synchronize("barriers are ready")
KERNEL = summed()
(SENT,) = (s for s in walk(KERNEL.body) if isinstance(s, StoreAsync))
SENDS = If(integers.less(Symbol("block_x", low=0), 2), (SENT,))


def ordered(*body: Statement) -> Kernel:
    return order(replace(KERNEL, body=body, orders=(), pipelines=()))


def test_the_meeting_at_the_start_serves_the_cluster_too() -> None:
    kernel = ordered(InitBarriers(()), READY, SENDS)
    assert [type(s) for s in kernel.body] == [
        InitBarriers,
        SynchronizeCluster,
        If,
        SynchronizeCluster,
    ]


def test_a_meeting_behind_the_first_access_is_too_late_for_the_start() -> None:
    kernel = ordered(If(integers.TRUE, (SENDS,), uniform=True), READY)
    assert [type(s) for s in kernel.body] == [
        SynchronizeCluster,
        If,
        Synchronize,
        SynchronizeCluster,
    ]
