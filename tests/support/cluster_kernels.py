"""Kernels whose blocks work in clusters: sums of rows, each row shared out over a cluster's blocks.

A block adds up its part of a row; then the blocks exchange their sums through each other's shared
memory, in one of several ways, and each writes its part of the row with the whole sum taken off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tests.support.plain_products import replaced
from tests.support.simulating import Contents, reported
from tests.support.summing import FLOAT_SUM, added
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.kernel.clusters import (
    ArriveRemote,
    LoadRemote,
    ReleaseRemote,
    StoreAsync,
    StoreRemote,
    SynchronizeCluster,
    rank_in,
)
from warpsmith.kernel.kernel import Kernel, Launch
from warpsmith.kernel.nodes import Buffer, Declare, Element, For, If, Statement, Store, Synchronize
from warpsmith.kernel.reductions import Reduce
from warpsmith.kernel.rings import ELECTED, Await, Expect, InitBarriers
from warpsmith.lower.passes.lay_out_shared import lay_out_shared
from warpsmith.sim.report import Report

Body = tuple[Statement, ...]

THREADS, WARPS, PASSES = 64, 2, 2
"""Of a block; and elements of a row that each thread has."""

STARTED = SynchronizeCluster("all blocks have started")
EXCHANGED = SynchronizeCluster("sums are there")
READ = SynchronizeCluster("sums were read")
READY = Synchronize("barriers are ready")

FLOAT = DataType.Float
X = Symbol("block_x", low=0, extent=Const(THREADS))
BLOCK = Symbol("grid_x", low=0)
ZERO, ONE = integers.ZERO, integers.ONE


def _local(name: str) -> Buffer:
    return Buffer(name, FLOAT, MemoryType.local, ONE)


def _shared(name: str, size: int, dtype: DataType = FLOAT) -> Buffer:
    return Buffer(name, dtype, MemoryType.shared, Const(size))


SUM, TOTAL, PART = _local("sum"), _local("total"), _local("part")
SCRATCH = _shared("scratch", WARPS)
ARRIVED = _shared("arrived", 1, DataType.Int)


@dataclass(frozen=True)
class RowSum:
    """Rows over clusters of `blocks` along x, `rows` of them one after the other in a cluster.

    Attributes:
        way: how blocks exchange sums, a name of `WAYS`.
    """

    way: str
    blocks: int
    rows: int = 1
    clusters: int = 2

    @property
    def columns(self) -> int:
        return self.blocks * THREADS * PASSES

    @property
    def size(self) -> int:
        return self.clusters * self.rows * self.columns

    @property
    def launch(self) -> Launch:
        grid = (Const(self.clusters * self.blocks), ONE, ONE)
        return Launch(grid, (Const(THREADS), ONE, ONE), cluster=(self.blocks, 1, 1))

    @property
    def rank(self) -> Symbol:
        return rank_in(self.launch)

    @property
    def parts(self) -> Buffer:
        """A block's sum, or those of all blocks, in each block."""
        return _shared("parts", self.blocks)

    def kernel(self) -> Kernel:
        x, y = (
            Buffer(name, FLOAT, MemoryType.global_, Const(self.size), name == "Y") for name in "XY"
        )
        row = Symbol("row", low=0)
        cluster = integers.floordiv(BLOCK, self.blocks)
        first = integers.add(
            integers.mul(integers.add(integers.mul(cluster, self.rows), row), self.columns),
            integers.mul(self.rank, THREADS * PASSES),
            X,
        )
        turn = Symbol("k", low=0)
        place = integers.add(first, integers.mul(turn, THREADS))
        shifted = Apply("sub", (Element(x, place), Element(TOTAL, ZERO)), FLOAT)
        of_row = (
            Declare(SUM),
            Store(SUM, ZERO, Const(0.0, FLOAT)),
            _times(turn, PASSES, added(SUM, ZERO, Element(x, place))),
            Reduce(FLOAT_SUM, (SUM,), ZERO, 1, (ParallelType.block_x,), SCRATCH),
            Declare(TOTAL),
            Store(TOTAL, ZERO, Const(0.0, FLOAT)),
            *WAYS[self.way](self),
            _times(turn, PASSES, Store(y, place, shifted)),
        )
        before, after = OUTSIDE[self.way](self)
        return lay_out_shared(
            Kernel(
                name="row_sums",
                parameters=(x, y),
                scalars=(),
                shared=(self.parts, SCRATCH, ARRIVED),
                body=(*before, For(row, Const(self.rows), of_row, unroll=False), *after),
                launch=self.launch,
                index_type=DataType.Int32,
            )
        )

    def inputs(self, seed: int = 0) -> np.ndarray:
        """Whole numbers, so that no order of adding up matters."""
        random = np.random.default_rng(seed)
        return random.integers(-8, 9, self.size).astype(np.float32)

    def expected(self, x: np.ndarray) -> np.ndarray:
        rows = x.reshape(-1, self.columns)
        return (rows - rows.sum(1, keepdims=True)).reshape(-1)


def _times(symbol: Symbol, count: int, *body: Statement) -> For:
    return For(symbol, Const(count), body, unroll=True)


def _to_each(case: RowSum, statement: Statement) -> If:
    """What as many threads as the cluster has blocks do, each for the block of its number."""
    return If(integers.less(X, case.blocks), (statement,))


def _added(case: RowSum) -> For:
    """All parts in this block's own shared memory."""
    peer = Symbol("peer", low=0)
    return _times(peer, case.blocks, added(TOTAL, ZERO, Element(case.parts, peer)))


def _fetched(case: RowSum, index: Expr, rank: Expr, peer: Symbol) -> Body:
    """Parts that lie in other blocks."""
    load = LoadRemote(PART, ZERO, case.parts, index, rank)
    add = added(TOTAL, ZERO, Element(PART, ZERO))
    return Declare(PART), _times(peer, case.blocks, load, add)


def _push(case: RowSum) -> Body:
    """Each block stores its sum in all blocks."""
    sent = StoreRemote(case.parts, case.rank, Element(SUM, ZERO), X)
    return _to_each(case, sent), EXCHANGED, _added(case), *_again(case)


def _pull(case: RowSum) -> Body:
    """Each block stores its sum in itself, and loads those of all blocks."""
    peer = Symbol("peer", low=0)
    own = If(integers.less(X, 1), (Store(case.parts, ZERO, Element(SUM, ZERO)),))
    return own, EXCHANGED, *_fetched(case, ZERO, peer, peer), READ


def _gather(case: RowSum) -> Body:
    """Each block stores its sum in the first block, and loads all sums from there."""
    peer = Symbol("peer", low=0)
    sent = StoreRemote(case.parts, case.rank, Element(SUM, ZERO), ZERO)
    one = If(integers.less(X, 1), (sent,))
    return one, EXCHANGED, *_fetched(case, peer, ZERO, peer), READ


def _again(case: RowSum) -> Body:
    return (READ,) if case.rows > 1 else ()


def _arrive(case: RowSum) -> Body:
    """Like push, with an arrival at a barrier of the block that gets the sum."""
    sent = StoreRemote(case.parts, case.rank, Element(SUM, ZERO), X)
    both = If(integers.less(X, case.blocks), (sent, ArriveRemote(ARRIVED, ZERO, (X,))))
    return both, WAIT, _added(case)


def _release(case: RowSum) -> Body:
    """Like arrive, where whole warps arrive at each block."""
    peer = Symbol("peer", low=0)
    sent = StoreRemote(case.parts, case.rank, Element(SUM, ZERO), X)
    told = _times(peer, case.blocks, ReleaseRemote(ARRIVED, ZERO, (peer,)))
    return _to_each(case, sent), told, WAIT, _added(case)


def _async(case: RowSum) -> Body:
    """Like push, with barriers that count the bytes of sums."""
    sent = StoreAsync(case.parts, case.rank, Element(SUM, ZERO), X, ARRIVED, ZERO)
    return _to_each(case, sent), WAIT, _added(case)


WAIT = Await(ARRIVED, ZERO, ZERO, of_cluster=True)


def _nothing(case: RowSum) -> tuple[Body, Body]:
    return (), ()


def _meeting(case: RowSum) -> tuple[Body, Body]:
    return (STARTED,), ()


def _counting(case: RowSum) -> tuple[Body, Body]:
    assert case.rows == 1
    arrivals = {"arrive": case.blocks, "release": case.blocks * WARPS, "async": 1}[case.way]
    begun: Body = (InitBarriers(((ARRIVED, Const(arrivals)),)),)
    if case.way == "async":
        begun += (If(ELECTED, (Expect(ARRIVED, ZERO, Const(4 * case.blocks)),)),)
    return (*begun, STARTED), ()


WAYS = {
    "push": _push,
    "pull": _pull,
    "gather": _gather,
    "arrive": _arrive,
    "release": _release,
    "async": _async,
}
OUTSIDE = {
    "push": _meeting,
    "pull": _nothing,
    "gather": _meeting,
    "arrive": _counting,
    "release": _counting,
    "async": _counting,
}


def without(kernel: Kernel, statement: Statement, *new: Statement) -> Kernel:
    """The kernel with other statements, or none, in place of one."""
    return replace(kernel, body=replaced(kernel.body, statement, *new))


def simulate_sum(case: RowSum, kernel: Kernel, schedules: int = 8) -> Report:
    """What the simulator says of the kernel, or of one like it."""
    x = case.inputs()
    memory = {
        "X": Contents(x, np.full(x.shape, True)),
        "Y": Contents(np.zeros_like(x), np.full(x.shape, False)),
    }
    report = reported(kernel, {}, memory, schedules=schedules)
    assert report is not None
    return report
