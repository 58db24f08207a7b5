"""Blocks of a cluster that load for each other, with one thing wrong: refused, and found."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import ml_dtypes
import numpy as np
import pytest

from tests.protocol.edits import counting, edited, instead, refused, without
from tests.support.cluster_products import cluster_product, rows_plus_row
from tests.support.simulating import reported
from warpsmith import DataType
from warpsmith.engine.proofs import prove
from warpsmith.errors import ProtocolError
from warpsmith.ir import integers
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.clusters import (
    RANK,
    AnnounceStart,
    AwaitStart,
    ReleaseRemote,
    SynchronizeCluster,
    rank_in,
)
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, Statement, Synchronize
from warpsmith.kernel.rings import ArriveByWarp, Await, Expect, FenceProxy, TileCopy
from warpsmith.kernel.traversal import replace_symbols
from warpsmith.lower.pipeline import lower
from warpsmith.protocol import check_any_sizes
from warpsmith.sim.report import Report
from warpsmith.targets.hopper import H200

M, N, K = 128, 64, 320
"""One cluster of two blocks: a tile each, and five fills of two stages."""

ROWS, COLUMNS = 8, 640
"""The same, of rows to which one row is added."""

WARPS = 4


@cache
def right() -> Kernel:
    """A product whose second operand comes by multicast."""
    fusion = cluster_product((2, 1), stages=2, grid=1).fusion
    return lower(fusion, "product", DataType.Int32, target=H200)


@cache
def rows() -> Kernel:
    """A row that comes by multicast, and that threads read."""
    return lower(rows_plus_row(2).fusion, "rows", DataType.Int32, target=H200)


@cache
def in_place() -> Kernel:
    """The same, loaded by the threads that read it."""
    return lower(rows_plus_row(2, role=None).fusion, "rows", DataType.Int32, target=H200)


def values_of(kernel: Kernel) -> dict[str, int]:
    if kernel.name == "rows":
        return {"T0_size0": ROWS, "T0_size1": COLUMNS, "T1_size0": COLUMNS}
    return {"T0_size0": M, "T0_size1": K, "T1_size0": N, "T1_size1": K}


def report_of(kernel: Kernel, schedules: int = 4) -> Report:
    random = np.random.default_rng(0)
    shapes, dtype = ((M, K), (N, K)), np.dtype(ml_dtypes.bfloat16)
    if kernel.name == "rows":
        shapes, dtype = ((ROWS, COLUMNS), (1, COLUMNS)), np.dtype(np.float32)
    arrays = [random.uniform(-1, 1, shape).astype(dtype) for shape in shapes]
    memory = dict(zip(("T0", "T1"), arrays, strict=True))
    return reported(kernel, values_of(kernel), memory, schedules=schedules)


@pytest.mark.parametrize("make", [right, rows, in_place])
def test_the_right_kernels_are_right(make: Callable[[], Kernel]) -> None:
    prove(make(), values_of(make()), H200)
    assert report_of(make()).verdict == "clean"


@pytest.mark.parametrize("make", [right, rows, in_place])
def test_any_sizes(make: Callable[[], Kernel]) -> None:
    assert all(verdict.steps for verdict in check_any_sizes(make(), target=H200))


def of_multicast(change: Callable[[TileCopy], TileCopy]) -> Kernel:
    """The kernel with other multicast copies."""

    def changed(copy: TileCopy) -> Statement:
        return copy if copy.multicast is None else change(copy)

    return edited(right(), instead(TileCopy, changed))


def masked(mask: Expr) -> Kernel:
    def change(copy: TileCopy) -> TileCopy:
        assert copy.multicast is not None
        return replace(copy, multicast=replace(copy.multicast, mask=mask))

    return of_multicast(change)


def released_here(kernel: Kernel) -> Kernel:
    """Stages are released to the block's own producer only."""
    return edited(kernel, instead(ReleaseRemote, lambda s: ArriveByWarp(s.barrier, s.stage)))


def acquired(kernel: Kernel) -> Kernel:
    """The wait for readers in other blocks is for what they wrote, too."""
    at = "ring0_empty"
    return edited(
        kernel,
        instead(Await, lambda s: replace(s, of_cluster=True) if s.barrier.name == at else s),
    )


def one_share_expected() -> Kernel:
    def change(expect: Expect) -> Statement:
        return replace(expect, bytes=integers.index(64 * 64 * 2 + 32 * 64 * 2))

    return edited(right(), instead(Expect, change))


def of_rank_0(copy: TileCopy) -> TileCopy:
    """All blocks load the first share."""
    return replace_symbols(copy, {rank_in(right().launch): integers.ZERO})


def met(why: str, kind: type[Statement] | None, kernel: Kernel | None = None) -> Kernel:
    """The kernel with something else in place of a meeting of the cluster."""
    made = () if kind is None else (kind(),)
    return edited(
        kernel or right(), instead(SynchronizeCluster, lambda s: made if why in s.why else s)
    )


def leaving() -> Kernel:
    """The kernel whose role that loads awaits nobody at its end."""

    def shorter(branch: Branch) -> Statement:
        left = isinstance(branch.body[-1], For) and branch.agent.name == "load"
        return replace(branch, body=branch.body[:-1]) if left else branch

    return edited(right(), instead(Branch, shorter))


def started(kind: type[Statement] | None) -> Kernel:
    """The kernel whose blocks do not tell each other that they have started."""
    made = () if kind is None else (kind(),)
    return edited(
        right(),
        lambda s: (
            made if isinstance(s, AnnounceStart) else () if isinstance(s, AwaitStart) else (s,)
        ),
    )


@dataclass(frozen=True)
class Fault:
    """A wrong kernel, the code of its refusal, and findings of which the simulator has one."""

    wrong: Callable[[], Kernel]
    code: str
    finds: frozenset[str]


FAULTS = {
    "a count forgets the consumers of the other block": Fault(
        lambda: counting(right(), "ring0_empty", WARPS), "WS0904", frozenset({"arrival-overflow"})
    ),
    "a bit of the mask is missing": Fault(
        lambda: masked(integers.ONE), "WS0905", frozenset({"tx-mismatch"})
    ),
    "no bit but the own one": Fault(
        lambda: masked(integers.add(1, Symbol(RANK, low=0, extent=integers.index(2)))),
        "WS0905",
        frozenset({"tx-mismatch"}),
    ),
    "stages are released in the own block only": Fault(
        lambda: released_here(right()), "WS0901", frozenset({"deadlock"})
    ),
    "stages are released, and counted, in the own block only": Fault(
        lambda: counting(released_here(right()), "ring0_empty", WARPS),
        "WS0905",
        frozenset({"race"}),
    ),
    "a block leaves early": Fault(leaving, "WS0919", frozenset({"exit-outstanding"})),
    "a block that loads for itself leaves early": Fault(
        lambda: met("reached", None, in_place()), "WS0919", frozenset({"exit-outstanding"})
    ),
    "barriers of one role are ready in the own block only": Fault(
        lambda: met("ready", Synchronize, in_place()),
        "WS0915",
        frozenset({"missing-init-fence"}),
    ),
    "stages of one role are released, and counted, in the own block only": Fault(
        lambda: counting(released_here(in_place()), "ring0_empty", WARPS),
        "WS0905",
        frozenset({"race"}),
    ),
    "barriers are ready in the own block only": Fault(
        lambda: started(Synchronize), "WS0915", frozenset({"missing-init-fence"})
    ),
    "barriers are not ready at all": Fault(
        lambda: started(None), "WS0915", frozenset({"missing-init-fence"})
    ),
    "one share's bytes are expected": Fault(
        one_share_expected, "WS0905", frozenset({"tx-mismatch"})
    ),
    "readers in other blocks are not fenced": Fault(
        lambda: edited(rows(), without(FenceProxy)), "WS0914", frozenset({"missing-proxy-fence"})
    ),
    "all blocks load the same share": Fault(
        lambda: of_multicast(of_rank_0), "WS0906", frozenset({"race"})
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_is_refused(name: str) -> None:
    kernel = FAULTS[name].wrong()
    with pytest.raises(ProtocolError) as caught:
        prove(kernel, values_of(kernel), H200)
    print(caught.value)
    assert caught.value.code == FAULTS[name].code


@pytest.mark.parametrize("name", FAULTS)
def test_is_found(name: str) -> None:
    report = report_of(FAULTS[name].wrong())
    print(report)
    assert FAULTS[name].finds & {finding.kind for finding in report.findings}


def test_a_wait_for_what_readers_wrote_is_refused() -> None:
    kernel = acquired(right())
    refused(kernel, values_of(kernel), "WS0920", "once they have read", judge=prove)


LANE = Symbol("lane", low=0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: masked(LANE),
        lambda: edited(right(), instead(ReleaseRemote, lambda s: replace(s, ranks=(LANE,)))),
    ],
    ids=["loaded", "released"],
)
def test_blocks_that_only_threads_know_are_refused(make: Callable[[], Kernel]) -> None:
    kernel = make()
    with pytest.raises(ProtocolError, match="threads of a warp may differ in lane") as refusal:
        prove(kernel, values_of(kernel), H200)
    assert refusal.value.code == "WS0917"
    assert "sizes and ranks tell which blocks are reached" in str(refusal.value)
