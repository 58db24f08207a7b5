"""Rows that are shared out over a cluster, loaded by one role and reduced by another."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.protocol.edits import Change, counting, edited, instead, refused, without
from tests.support.simulating import reported
from warpsmith import DataType, FusionDefinition, LoadStoreOpType, MemoryType, ParallelType
from warpsmith.engine.proofs import prove
from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.kernel.clusters import (
    AnnounceStart,
    AwaitStart,
    ReleaseRemote,
    StoreAsync,
    SynchronizeCluster,
)
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import If, Statement, Synchronize
from warpsmith.kernel.reductions import Reduce
from warpsmith.kernel.rings import ELECTED, Advance, ArriveByWarp, Await, Expect, FenceProxy
from warpsmith.kernel.waits import wait_sites
from warpsmith.lower.passes.exchange_parts import exchange_parts
from warpsmith.lower.passes.watch_waits import watch_waits
from warpsmith.lower.pipeline import lower
from warpsmith.protocol import check_any_sizes
from warpsmith.targets.hopper import H200

COLUMNS = 400


@dataclass(frozen=True)
class Rows:
    """`x * f(x)` of rows, each shared out over the blocks of a cluster.

    Attributes:
        reduced: names of operations, one behind the other.
        threads, side: of the role that reduces, along a row and side by side.
        once: a cluster has one row; else two clusters loop over them.
        groups: the threads side by side are groups that take turns.
    """

    reduced: tuple[str, ...] = ("sum",)
    blocks: int = 2
    threads: int = 64
    side: int = 1
    once: bool = False
    groups: bool = False

    def program(self) -> FusionDefinition:
        with FusionDefinition() as fd:
            x: Any = fd.define_tensor([-1, COLUMNS], True, DataType.Float)
            result: Any = x
            totals: list[Any] = []
            for name in self.reduced:
                totals.append(getattr(fd.ops, name)(result, [1]))
                result = fd.ops.mul(result, fd.ops.broadcast(totals[-1], [False, True]))
            fd.add_output(result)
            held: Any = x.cache_after(op_type=LoadStoreOpType.tma)
            held.set_memory_type(MemoryType.shared)
            total = totals[0]
            total.split(1, self.blocks, inner_split=False)
            total.split(2, self.threads)
            total.split(0, self.side)
            total.split(0, 1 if self.once else 2)  # .., clusters, rows side by side, blocks, ..
            if self.once:
                total.reorder({0: 1, 1: 0})
            fd.sched.transform_like(total)
            total.axis(1).parallelize(ParallelType.grid_x)
            total.axis(2).parallelize(ParallelType.block_y)
            total.axis(3).parallelize(ParallelType.cluster_x)
            total.axis(5).parallelize(ParallelType.block_x)
            fd.sched.parallelize_like(total)
            for each in totals:
                each.rfactor([4])
            fd.sched.inline_at(result, 3 if self.groups else 2, best_effort=True)
            held.axis(2).parallelize(ParallelType.serial)
            held.axis(5).parallelize(ParallelType.tma)
            at = {"stage_slice_position": 3} if self.groups else {}
            held.circular_buffer(max(2, self.side), role="load", **at)
        return fd

    def kernel(self) -> Kernel:
        return lower(self.program().fusion, "rows", DataType.Int32, target=H200)

    def expected(self, x: np.ndarray) -> np.ndarray:
        for name in self.reduced:
            x = x * getattr(x, name)(1, keepdims=True)
        return x


CASES = [
    Rows(),
    Rows(blocks=4, threads=16),
    Rows(side=2),
    Rows(threads=32, side=4),
    Rows(once=True),
    Rows(("sum", "max")),
    Rows(side=2, groups=True),
    Rows(blocks=4, threads=32, side=4, groups=True),
    Rows(side=2, groups=True, once=True),
    Rows(blocks=5, threads=128),
]


@pytest.mark.few(3)
@pytest.mark.parametrize("case", CASES, ids=repr)
def test_right_and_clean(case: Rows) -> None:
    x = np.random.default_rng(0).integers(1, 3, (9, COLUMNS)).astype(np.float32)
    fd = case.program()
    (found,) = fd.manual_execute([x])
    np.testing.assert_allclose(found, case.expected(x), rtol=1e-5)
    assert fd.verify([x], schedules=3).verdict == "clean"


def test_exchanges_of_roles_have_two_stages_and_arrivals_of_all_blocks() -> None:
    fd = Rows(blocks=4).program()
    fd.manual_execute([np.ones((9, COLUMNS), np.float32)])
    told = "2 stages of 32 bytes (T1_of_blocks), compute to compute, 1 arrival at full, 8 at empty"
    assert f"exchange0: {told}, T1_of_blocks by st.async to 4 blocks" in fd.explain()


def test_watched_waits_say_whose_they_are() -> None:
    sites = wait_sites(watch_waits(Rows().kernel(), 10**9).body)
    found = [(s.role, s.ring, s.full) for s in sites if s.ring == "exchange0"]
    assert found == [("compute", "exchange0", False), ("compute", "exchange0", True)]


@pytest.mark.parametrize(
    "case", [Rows(), Rows(blocks=4, threads=16), Rows(side=2), Rows(once=True)]
)
def test_the_protocol_holds_for_any_sizes(case: Rows) -> None:
    assert all(v.steps for v in check_any_sizes(case.kernel(), target=H200))


@pytest.mark.parametrize("role", ["load", None])
def test_blocks_that_exchange_load_for_each_other_what_all_read(role: str | None) -> None:
    with FusionDefinition() as fd:
        x: Any = fd.define_tensor([-1, 2, 64], True, DataType.Float)
        v: Any = fd.define_tensor([-1, 64], True, DataType.Float)
        total: Any = fd.ops.sum(x, [1, 2])
        scaled = fd.ops.mul(x, fd.ops.broadcast(total, [False, True, True]))
        y = fd.ops.add(scaled, fd.ops.broadcast(v, [False, True, False]))
        fd.add_output(y)
        tiles: list[Any] = [t.cache_after(op_type=LoadStoreOpType.tma) for t in (x, v)]
        total.split(0, 2)
        fd.sched.transform_like(total)
        total.axis(1).parallelize(ParallelType.grid_x)
        total.axis(2).parallelize(ParallelType.cluster_x)
        total.axis(3).parallelize(ParallelType.block_x)
        fd.sched.parallelize_like(total)
        fd.sched.inline_at(y, 2, best_effort=True)
        for tile in tiles:
            tile.set_memory_type(MemoryType.shared)
            tile.axis(-1).parallelize(ParallelType.tma)
            tile.circular_buffer(2, **({} if role is None else {"role": role}))
    random = np.random.default_rng(0)
    a, b = (random.integers(1, 4, (7, *n)).astype(np.float32) for n in ((2, 64), (64,)))
    (found,) = fd.manual_execute([a, b])
    np.testing.assert_array_equal(found, a * a.sum((1, 2), keepdims=True) + b[:, None])
    assert "T8 by multicast to 2 blocks" in fd.explain()
    assert "T2_of_blocks by st.async to 2 blocks" in fd.explain()
    assert fd.verify([a, b], schedules=3).verdict == "clean"


# --- one thing wrong ---------------------------------------------------------------------------

FULL, EMPTY = "exchange0_full", "exchange0_empty"
ROWS = 5
ENDS = "no block is reached any more"


@cache
def right() -> Kernel:
    return Rows(blocks=4).kernel()


def in_own_block(release: ReleaseRemote) -> Statement:
    return ArriveByWarp(release.barrier, release.stage)


def by_one(wait: Await) -> Statement:
    return If(ELECTED, (wait,))


def fewer(expect: Expect) -> Statement:
    return replace(expect, bytes=integers.sub(expect.bytes, 4))


def start_apart(statement: Statement) -> tuple[Statement, ...]:
    """Each block's threads meet in place of all blocks'."""
    if isinstance(statement, AnnounceStart):
        return (Synchronize(),)
    return () if isinstance(statement, AwaitStart) else (statement,)


def of_the_cluster(wait: Await) -> Statement:
    return replace(wait, of_cluster=True)


def of_the_block(wait: Await) -> Statement:
    return replace(wait, of_cluster=False)


FAULTS: dict[str, tuple[Change, str]] = {
    "released in the own block": (instead(ReleaseRemote, in_own_block), "WS0901"),
    "released nowhere": (without(ReleaseRemote), "WS0901"),
    "released in one block": (
        instead(ReleaseRemote, lambda s: replace(s, ranks=s.ranks[:1])),
        "WS0905",
    ),
    "not awaited to be free": (without(Await, barrier=EMPTY), "WS0906"),
    "one thread awaits it to be free": (instead(Await, by_one, barrier=EMPTY), "WS0906"),
    "full for the own block": (instead(Await, of_the_block, barrier=FULL), "WS0920"),
    "free for all that others did": (instead(Await, of_the_cluster, barrier=EMPTY), "WS0920"),
    "not awaited to be full": (without(Await, barrier=FULL), "WS0907"),
    "fewer bytes announced": (instead(Expect, fewer, barrier=FULL), "WS0905"),
    "sent to one block": (
        instead(StoreAsync, lambda s: replace(s, rank=integers.ZERO)),
        "WS0917",
    ),
    "the stage stays": (without(Advance, cursor="exchange0"), "WS0901"),
    "no fence": (without(FenceProxy, of_cluster=True), "WS0914"),
    "blocks end early": (without(SynchronizeCluster, why=ENDS), "WS0919"),
    "blocks start apart": (start_apart, "WS0915"),
}


@pytest.mark.parametrize(("count", "code"), [(4, "WS0904"), (10, "WS0901")])
def test_stages_are_free_when_all_blocks_have_released_them(count: int, code: str) -> None:
    refused(counting(right(), EMPTY, count), {"T0_size0": ROWS}, code, judge=prove)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", FAULTS)
def test_what_is_wrong_is_refused(name: str) -> None:
    change, code = FAULTS[name]
    refused(edited(right(), change), {"T0_size0": ROWS}, code, judge=prove)


def findings(kernel: Kernel) -> list[str]:
    """What is wrong with a kernel on the simulator; empty where nothing is."""
    x = np.random.default_rng(1).integers(1, 3, (ROWS, COLUMNS)).astype(np.float32)
    output = next(b.name for b in kernel.parameters if b.written)
    report = reported(kernel, {"T0_size0": ROWS}, {"T0": x}, schedules=4)
    if report.verdict == "findings":
        return sorted({finding.kind for finding in report.findings})
    wanted = Rows(blocks=4).expected(x)
    return [] if np.array_equal(report.arrays[output].reshape(x.shape), wanted) else ["wrong"]


@pytest.mark.few(4)
@pytest.mark.parametrize("name", [n for n, (_, code) in FAULTS.items() if code != "WS0920"])
def test_what_is_wrong_is_found(name: str) -> None:
    assert findings(right()) == []
    assert findings(edited(right(), FAULTS[name][0])) != []


# --- refusals ----------------------------------------------------------------------------------


def test_what_groups_reduce_together_goes_to_no_other_block() -> None:
    forms: dict[str, Kernel] = {}
    lower(
        Rows(side=2, groups=True).program().fusion,
        "rows",
        DataType.Int32,
        lambda name, kernel: forms.update({name: kernel}),
        target=H200,
    )
    axes = (ParallelType.block_x, ParallelType.block_y)
    across = edited(forms["pack_operands"], instead(Reduce, lambda s: replace(s, block_axes=axes)))
    with pytest.raises(ScheduleError, match="across its 2 groups of warps") as failure:
        exchange_parts(across)
    assert failure.value.code == "WS0273"
