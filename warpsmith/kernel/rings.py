"""What pipelines are made of on the GPU: copies of tiles, cursors, mbarriers, groups and fences."""

from __future__ import annotations

from dataclasses import field, replace
from typing import ClassVar

from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.kernel.effects import (
    READ,
    WRITE,
    Done,
    Effect,
    Orders,
    Proxy,
    Verb,
    Who,
    access,
    at_barrier,
    defines,
    expression,
    nested,
    plain,
)
from warpsmith.kernel.forms import Declared
from warpsmith.kernel.nodes import Buffer, Statement
from warpsmith.kernel.tiles import TensorMap, TileDim, map_of
from warpsmith.values import dataclass

ELECTED = Symbol("elected", dtype=DataType.Bool)
"""True in the one thread of a block that asks for copies, arms barriers and initializes them."""


_UNIT = Effect(proxy=Proxy.ASYNC, who=Who.ONE, words="the TMA unit copies")
_LOAD_READS = replace(_UNIT, reads=True, done=Done.BYTES, words="TMA load reads")
_LOAD_WRITES = replace(_UNIT, writes=True, done=Done.BYTES, words="TMA load writes")
_MULTICAST_WRITES = replace(_LOAD_WRITES, words="TMA multicast writes")
_STORE_READS = replace(_UNIT, reads=True, done=Done.STORES, words="TMA store reads")
_STORE_WRITES = replace(_UNIT, writes=True, done=Done.STORES, words="TMA store writes")
_THREADS_READ = replace(READ, who=Who.TOGETHER)
_THREADS_WRITE = replace(WRITE, who=Who.TOGETHER)
_COPIES_READ = replace(_THREADS_READ, words="cp.async reads")
_COPIES_WRITE = replace(_THREADS_WRITE, done=Done.COPIES, words="cp.async writes")


@dataclass(frozen=True, slots=True)
class Multicast(Declared):
    """A copy that lands in several blocks of a cluster, in each at the place of the asking one's.

    Attributes:
        mask: bit r stands where the block of rank r gets the copy. In each, the barrier of the same
            stage counts its bytes.
        share: number of the copy among those of a tile, of which each of these blocks asks for one.
        shares: of a tile, all of one size.
    """

    words = "mask {mask}, share {share} of {shares}"

    mask: Expr = field(metadata=expression())
    share: Expr = field(metadata=expression())
    shares: int = field(metadata=plain())


@dataclass(frozen=True, slots=True)
class TileCopy(Statement):
    """A box moves between global memory and consecutive elements of a shared buffer.

    Attributes:
        dims: of the tensor in memory, slowest first. Out of range, a load by `tma` reads zeros and
            counts their bytes; all others copy what is inside, and threads, where asked, zeros.
        inside: elements of the fastest dimension's box that are inside.
        condition: nothing is copied where it is false; a load by `tma` does not ask.
        how: `bulk` and `tma` are for one thread; `cp_async` and `set` take all threads of the
            block, each with every so many `width` bytes.
        swizzle: as that of a tensor.
        evict_last: what a load by `bulk` brings into the L2 is the last to go.
        evict_first: what a load by `bulk` or `tma` brings there is the first.
        stores: from shared to global memory.
        barrier: counts the bytes of a load for one thread, with the stage whose barrier it is.
        rounds: a load by `tma` of floats, which it rounds to TF32.
        multicast: of a load by `tma`, the blocks of the cluster that get it; None for its own.
        zeros: whether a load by threads writes zeros for what is out of range.
    """

    shared: Buffer = field(metadata=access("on_shared", "index", "elements"))
    index: Expr = field(metadata=expression())
    memory: Buffer = field(metadata=access("on_memory", "start", "elements"))
    dims: tuple[TileDim, ...] = field(metadata=nested())
    inside: Expr = field(metadata=expression())
    condition: Expr = field(metadata=expression())
    how: LoadStoreOpType = field(metadata=plain())
    width: int = field(default=16, metadata=plain())
    swizzle: int = field(default=0, metadata=plain())
    evict_last: bool = field(default=False, metadata=plain())
    evict_first: bool = field(default=False, metadata=plain())
    stores: bool = field(default=False, metadata=plain())
    barrier: tuple[Buffer, Expr] | None = field(default=None, metadata=at_barrier(Verb.COUNT))
    rounds: bool = field(default=False, metadata=plain())
    multicast: Multicast | None = field(default=None, metadata=nested())
    zeros: bool = field(default=False, metadata=plain())

    @property
    def words(self) -> str:
        sides = ("{memory!s}[{dims}]", "{shared}")
        target, source = sides if self.stores else sides[::-1]
        return f"{target} = {source} by {{how}}{{barrier: at %}}{{multicast:, multicast to %}}"

    @property
    def on_shared(self) -> Effect:
        """What becomes of the shared buffer."""
        if self.stores:
            return _STORE_READS if self.how.is_tma else _THREADS_READ
        if self.how.is_tma:
            return _LOAD_WRITES if self.multicast is None else _MULTICAST_WRITES
        return _COPIES_WRITE if self.how is LoadStoreOpType.cp_async else _THREADS_WRITE

    @property
    def on_memory(self) -> Effect:
        """What becomes of global memory."""
        if self.stores:
            return _STORE_WRITES if self.how.is_tma else _THREADS_WRITE
        if self.how.is_tma:
            return _LOAD_READS
        return _COPIES_READ if self.how is LoadStoreOpType.cp_async else _THREADS_READ

    @property
    def elements(self) -> Expr:
        """Elements of the whole box."""
        return integers.mul(*(dim.box for dim in self.dims))

    @property
    def start(self) -> Expr:
        """Index in memory of the box's first element."""
        places = (integers.mul(integers.sub(d.first, d.before), d.stride) for d in self.dims)
        return integers.add(*places)

    @property
    def bytes(self) -> Expr:
        """Bytes that the TMA unit moves, and that the barrier of a load counts, in each block."""
        size = self.memory.dtype.size
        if self.how is LoadStoreOpType.tma:
            return integers.mul(self.elements, size)
        amount = integers.mul(self.inside, size)
        if self.condition == integers.TRUE:
            return amount
        return Apply("where", (self.condition, amount, integers.ZERO), amount.dtype)

    @property
    def tensor_map(self) -> TensorMap:
        """The map, without a name, by which the TMA unit finds the box."""
        return replace(map_of(self.memory, self.dims, self.swizzle), rounds=self.rounds)


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a ring that moves on by one stage at each use, and with each turn flips its phase.

    It survives the loops that move it: nothing is computed from a loop's index.

    Attributes:
        ahead: stages that it is before the place at which the ring is used, when it fills.
    """

    name: str
    stages: int
    ahead: int = 0

    @property
    def stage(self) -> Expr:
        """0 to stages - 1."""
        if self.stages == 1:
            return integers.ZERO
        return Symbol(f"{self.name}_stage", low=0, extent=Const(self.stages))

    @property
    def phase(self) -> Symbol:
        """0 in the first turn, 1 in the second, and so on."""
        return Symbol(f"{self.name}_phase", low=0, extent=Const(2))

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The variables that hold the place."""
        return tuple(s for s in (self.stage, self.phase) if isinstance(s, Symbol))


@dataclass(frozen=True, slots=True)
class Begin(Statement):
    """A cursor comes into being, in phase 0."""

    words = "begin {cursor}, {cursor.stages} stages{stage:, from stage %}"

    cursor: Cursor = field(metadata=defines())
    stage: Expr = field(default=integers.ZERO, metadata=expression())


@dataclass(frozen=True, slots=True)
class Advance(Statement):
    """`stage += by; if (stage >= stages) { stage -= stages; phase ^= 1; }`, with `by <= stages`."""

    words = "advance {cursor}{by: by %}"

    cursor: Cursor = field(metadata=defines())
    by: int = field(default=1, metadata=plain())


@dataclass(frozen=True, slots=True)
class Jump(Statement):
    """The cursor moves on by any number of stages, known when the kernel runs."""

    words = "advance {cursor} by {by}"

    cursor: Cursor = field(metadata=defines())
    by: Expr = field(metadata=expression())


@dataclass(frozen=True, slots=True)
class InitBarriers(Statement):
    """The elected thread initializes mbarriers, for itself and for the TMA unit; no barrier.

    Attributes:
        arrivals: that complete a phase of each barrier of a buffer; None is one for each warp of
            the block.
    """

    words = "initialize {arrivals}"

    arrivals: tuple[tuple[Buffer, Expr | None], ...] = field(metadata=at_barrier(Verb.INIT))


@dataclass(frozen=True, slots=True)
class InvalidateBarriers(Statement):
    """The elected thread ends mbarriers, so that their memory may serve for something else."""

    words = "invalidate {barriers}"

    barriers: tuple[Buffer, ...] = field(metadata=at_barrier(Verb.END))


@dataclass(frozen=True, slots=True)
class Expect(Statement):
    """`mbarrier.arrive.expect_tx`, or `mbarrier.expect_tx` where the thread does not arrive yet."""

    words = "{arrives:arrive and }expect {bytes} bytes at {barrier}"

    barrier: Buffer = field(metadata=at_barrier(Verb.EXPECT))
    stage: Expr = field(metadata=expression())
    bytes: Expr = field(metadata=expression())
    arrives: bool = field(default=True, metadata=plain())


@dataclass(frozen=True, slots=True)
class Await(Statement):
    """Wait for the phase of that parity: `while (!mbarrier.try_wait.parity);`

    Attributes:
        of_cluster: other blocks of the cluster arrive, and what they did is there behind it.
    """

    words = "await {barrier} parity {parity}{of_cluster: of the cluster}"

    barrier: Buffer = field(metadata=at_barrier(Verb.WAIT))
    stage: Expr = field(metadata=expression())
    parity: Expr = field(metadata=expression())
    of_cluster: bool = field(default=False, kw_only=True, metadata=plain())


@dataclass(frozen=True, slots=True)
class ArriveByWarp(Statement):
    """Each warp arrives, through one thread, once all its threads are done with a stage."""

    collective: ClassVar[bool] = True
    words = "arrive at {barrier}, once a warp"

    barrier: Buffer = field(metadata=at_barrier(Verb.ARRIVE))
    stage: Expr = field(metadata=expression())


@dataclass(frozen=True, slots=True)
class Arrive(Statement):
    """This thread alone arrives: `mbarrier.arrive`."""

    words = "arrive at {barrier}"

    barrier: Buffer = field(metadata=at_barrier(Verb.ARRIVE))
    stage: Expr = field(metadata=expression())


@dataclass(frozen=True, slots=True)
class FenceProxy(Statement, orders=Orders.FENCE):
    """What this thread wrote to shared memory is visible to the TMA unit: `fence.proxy.async`.

    Attributes:
        of_cluster: also what it wrote to that of other blocks of the cluster.
    """

    words = "fence for the TMA unit{of_cluster: of the cluster}"

    of_cluster: bool = field(default=False, kw_only=True, metadata=plain())


@dataclass(frozen=True, slots=True)
class CommitCopies(Statement, orders=Orders.GROUP):
    """The thread's copies since the last one form a group; `bulk` are those of the TMA unit."""

    words = "commit {bulk:bulk }copies"

    bulk: bool = field(metadata=plain())

    @property
    def done(self) -> Done:
        """The kind of group."""
        return Done.STORES if self.bulk else Done.COPIES


@dataclass(frozen=True, slots=True)
class AwaitCopies(Statement, orders=Orders.GROUP):
    """Wait until at most `pending` of this thread's groups are open; `bulk` ones have been read."""

    words = "await {bulk:bulk }copies but {pending} groups"

    bulk: bool = field(metadata=plain())
    pending: int = field(default=0, metadata=plain())

    @property
    def done(self) -> Done:
        """The kind of group."""
        return Done.STORES if self.bulk else Done.COPIES
