"""A kernel with roles over clusters: one role adds up rows, another collects what all blocks found.

In each block, role `sum` adds up the block's part of a row and stores the sum in all blocks; role
`collect`, one thread, adds what came from all blocks, and tells all blocks that its place is free.

    full : an arrival a block, with its sum
    empty: an arrival a block, from its collector

Of role `sum` only the threads that store wait for `empty`: nothing would keep a phase from ending
before others had seen the one before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.support.cluster_kernels import PASSES, THREADS, ZERO, without
from tests.support.simulating import Contents, reported
from tests.support.summing import FLOAT_SUM, added
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Const, Symbol
from warpsmith.kernel.agents import Agent, Branch
from warpsmith.kernel.clusters import ArriveRemote, StoreRemote, SynchronizeCluster, rank_in
from warpsmith.kernel.kernel import Kernel, Launch
from warpsmith.kernel.nodes import Buffer, Declare, Element, For, If, Statement, Store
from warpsmith.kernel.reductions import Reduce
from warpsmith.kernel.rings import Advance, Await, Begin, Cursor, InitBarriers
from warpsmith.lower.passes.lay_out_shared import lay_out_shared
from warpsmith.sim.report import Report
from warpsmith.targets.family import WARP, WARP_GROUP

ROWS = 3
ONE, FLOAT = integers.ONE, DataType.Float
STARTED = SynchronizeCluster("barriers are ready")
ENDED = SynchronizeCluster("nobody arrives any more")

FULL, EMPTY = (
    Buffer(name, DataType.Int, MemoryType.shared, ONE) for name in ("ring0_full", "ring0_empty")
)
FILL, USE = Cursor("ring0_fill", 1), Cursor("ring0_use", 1)
FREE = Await(EMPTY, ZERO, integers.sub(1, FILL.phase), of_cluster=True)
FILLED = Await(FULL, ZERO, USE.phase, of_cluster=True)

COLLECT = Agent(name="collect", first_warp=0, block=(ONE, ONE, ONE), elected=True)
SUM = Agent(name="sum", first_warp=WARP_GROUP, block=(Const(THREADS), ONE, ONE), barrier=1)

BLOCK = Symbol("grid_x", low=0)
X = Symbol("block_x", low=0, extent=Const(THREADS))
ROW, TURN, PEER = (Symbol(name, low=0) for name in ("row", "k", "peer"))


@dataclass(frozen=True)
class RoleSum:
    """Sums of rows, each shared out over a cluster of `blocks`, `ROWS` of them in a cluster."""

    blocks: int
    clusters: int = 2

    @property
    def columns(self) -> int:
        return self.blocks * THREADS * PASSES

    @property
    def launch(self) -> Launch:
        grid = (Const(self.clusters * self.blocks), ONE, ONE)
        threads = WARP_GROUP * WARP + THREADS
        return Launch(grid, (Const(threads), ONE, ONE), cluster=(self.blocks, 1, 1))

    @property
    def parts(self) -> Buffer:
        return Buffer("parts", FLOAT, MemoryType.shared, Const(self.blocks))

    def kernel(self) -> Kernel:
        rows = self.clusters * ROWS
        x = Buffer("X", FLOAT, MemoryType.global_, Const(rows * self.columns), False)
        y = Buffer("Y", FLOAT, MemoryType.global_, Const(rows))
        scratch = Buffer("scratch", FLOAT, MemoryType.shared, Const(THREADS // WARP))
        arrivals = ((FULL, Const(self.blocks)), (EMPTY, Const(self.blocks)))
        return lay_out_shared(
            Kernel(
                name="role_sums",
                parameters=(x, y),
                scalars=(),
                shared=(self.parts, scratch, FULL, EMPTY),
                body=(
                    InitBarriers(arrivals),
                    STARTED,
                    Branch(COLLECT, self._collect(y)),
                    Branch(SUM, self._sum(x, scratch)),
                    ENDED,
                ),
                launch=self.launch,
                index_type=DataType.Int32,
            )
        )

    def _sum(self, x: Buffer, scratch: Buffer) -> tuple[Statement, ...]:
        own = _register("own")
        rank = rank_in(self.launch)
        part = integers.add(integers.mul(rank, PASSES), TURN)
        place = integers.add(integers.mul(self._row, self.columns), integers.mul(part, THREADS), X)
        sent = StoreRemote(self.parts, rank, Element(own, ZERO), X)
        row = (
            Declare(own),
            Store(own, ZERO, Const(0.0, FLOAT)),
            For(TURN, Const(PASSES), (added(own, ZERO, Element(x, place)),), True),
            Reduce(FLOAT_SUM, (own,), ZERO, 1, (ParallelType.block_x,), scratch),
            If(integers.less(X, self.blocks), (FREE, sent, ArriveRemote(FULL, ZERO, (X,)))),
            Advance(FILL),
        )
        return Begin(FILL), For(ROW, Const(ROWS), row, unroll=False)

    def _collect(self, y: Buffer) -> tuple[Statement, ...]:
        total = _register("total")
        joined = added(total, ZERO, Element(self.parts, PEER))
        first = integers.less(rank_in(self.launch), 1)
        row = (
            Declare(total),
            Store(total, ZERO, Const(0.0, FLOAT)),
            FILLED,
            For(PEER, Const(self.blocks), (joined,), unroll=True),
            If(first, (Store(y, self._row, Element(total, ZERO)),)),
            For(PEER, Const(self.blocks), (ArriveRemote(EMPTY, ZERO, (PEER,)),), unroll=True),
            Advance(USE),
        )
        return Begin(USE), For(ROW, Const(ROWS), row, unroll=False)

    @property
    def _row(self) -> integers.Expr:
        return integers.add(integers.mul(integers.floordiv(BLOCK, self.blocks), ROWS), ROW)

    def inputs(self) -> np.ndarray:
        random = np.random.default_rng(1)
        return random.integers(-8, 9, self.clusters * ROWS * self.columns).astype(np.float32)

    def expected(self, x: np.ndarray) -> np.ndarray:
        return x.reshape(-1, self.columns).sum(1)


def _register(name: str) -> Buffer:
    return Buffer(name, FLOAT, MemoryType.local, ONE)


def simulate_roles(case: RoleSum, kernel: Kernel, schedules: int = 8) -> Report:
    """What the simulator says of the kernel, or of one like it."""
    x, y = case.inputs(), np.zeros(case.clusters * ROWS, np.float32)
    memory = {
        "X": Contents(x, np.full(x.shape, True)),
        "Y": Contents(y, np.full(y.shape, False)),
    }
    report = reported(kernel, {}, memory, schedules=schedules)
    assert report is not None
    return report


__all__ = ["RoleSum", "simulate_roles", "without"]
