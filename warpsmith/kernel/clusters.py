"""Statements about clusters: blocks that run at once and reach each other's shared memory.

Blocks of a cluster have the ranks 0, 1, 2, ... in it, x fastest. Shared memory of another block
may be touched once that block has started and until it ends. So all blocks meet before the first
statement here that takes a rank, and after the last one (PTX ISA, "Cluster of CTAs").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import ClassVar

from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.kernel.effects import (
    WRITE,
    Done,
    Orders,
    Proxy,
    Verb,
    access,
    at_barrier,
    expression,
    plain,
)
from warpsmith.kernel.kernel import Launch
from warpsmith.kernel.nodes import Buffer, Statement
from warpsmith.kernel.rings import ArriveByWarp
from warpsmith.values import dataclass

RANK = "cluster_rank"
"""Name of the symbol that is a block's rank in its cluster."""


def rank_of(block: tuple[int, int, int], cluster: tuple[int, int, int]) -> int:
    """The rank in its cluster of a block with that index in the grid."""
    x, y, z = (index % extent for index, extent in zip(block, cluster, strict=True))
    return x + cluster[0] * (y + cluster[1] * z)


def rank_in(launch: Launch) -> Symbol:
    """The rank of this block in its cluster: `%cluster_ctarank`."""
    return rank_among(Const(launch.cluster_blocks))


def rank_among(blocks: Expr) -> Symbol:
    """The rank of this block in its cluster of so many blocks."""
    return Symbol(RANK, low=0, extent=blocks)


def by_rank(values: Sequence[int]) -> Expr:
    """The value of this block, given those of the blocks of all ranks."""
    blocks, first = len(values), values[0]
    rank = rank_among(Const(blocks))
    step = values[1] - first if blocks > 1 else 0
    if all(value == first + step * at for at, value in enumerate(values)):
        return integers.add(first, integers.mul(step, rank))
    found: Expr = integers.index(values[-1])
    for at in reversed(range(blocks - 1)):
        if values[at] != values[at + 1]:
            here = integers.less(rank, at + 1)
            found = Apply("where", (here, integers.index(values[at]), found), DataType.Index)
    return found


@dataclass(frozen=True, slots=True)
class SynchronizeCluster(Statement, orders=Orders.MEETING):
    """All threads of all blocks of the cluster meet: `barrier.cluster.arrive` and `.wait`.

    What they did to shared memory, each other's too, is there behind it. It stands in no role.
    """

    collective: ClassVar[bool] = True
    words = "synchronize the cluster  ({why})"
    why: str = field(default="", metadata=plain())


@dataclass(frozen=True, slots=True)
class AnnounceStart(Statement, orders=Orders.PART):
    """All threads say that their block has started: `barrier.cluster.arrive.relaxed`.

    Before the blocks of the cluster meet, each of them comes by one `AwaitStart`. The two order
    nothing that is done to memory, and stand in no loop, condition or role.
    """

    collective: ClassVar[bool] = True
    words = "say that the block has started"


@dataclass(frozen=True, slots=True)
class AwaitStart(Statement, orders=Orders.NOTHING):
    """Wait until all threads of all blocks have come by `AnnounceStart`: `barrier.cluster.wait`."""

    collective: ClassVar[bool] = True
    words = "await the start of all blocks"


MEETINGS = (AnnounceStart, AwaitStart, SynchronizeCluster)
"""Statements at which the threads of all blocks take part."""


_SEND = replace(
    WRITE, proxy=Proxy.ASYNC, words="threads send to another block", remote=True, done=Done.BYTES
)


@dataclass(frozen=True, slots=True)
class StoreAsync(Statement):
    """`st.async`: `buffer[index] = value` in the block with that rank; the thread goes on, and a
    barrier counts the bytes.

    Buffer and barrier are those of the block with that rank. There, whoever waits for the phase
    sees the value, once the bytes were expected.
    """

    words = "{buffer} of block {rank} = {value}, counted at {barrier}"

    buffer: Buffer = field(metadata=access(_SEND, "index"))
    index: Expr = field(metadata=expression())
    value: Expr = field(metadata=expression())
    rank: Expr = field(metadata=expression())
    barrier: Buffer = field(metadata=at_barrier(Verb.COUNT, remote=True))
    stage: Expr = field(metadata=expression())

    @property
    def bytes(self) -> int:
        """That the barrier counts; 4 or 8."""
        return self.buffer.dtype.size


@dataclass(frozen=True, slots=True)
class ArriveRemote(Statement):
    """This thread alone arrives at a barrier of each block with one of those ranks, as a reader.

    What it read may be overwritten. What it wrote is not published: that would take a fence of all
    memory (`MEMBAR.ALL.GPU`).
    """

    words = "arrive at {barrier} of block {ranks} as a reader"

    barrier: Buffer = field(metadata=at_barrier(Verb.ARRIVE, remote=True))
    stage: Expr = field(metadata=expression())
    ranks: tuple[Expr, ...] = field(metadata=expression())


@dataclass(frozen=True, slots=True)
class ReleaseRemote(Statement):
    """Each warp arrives so, through one thread, once all its threads are done with a stage."""

    collective: ClassVar[bool] = True
    words = "release {barrier} of block {ranks} as readers"

    barrier: Buffer = field(metadata=at_barrier(Verb.ARRIVE, remote=True))
    stage: Expr = field(metadata=expression())
    ranks: tuple[Expr, ...] = field(metadata=expression())


BY_WARP = (ArriveByWarp, ReleaseRemote)
"""Arrivals of warps, each of which comes by for itself."""
