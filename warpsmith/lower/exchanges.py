"""Reductions over the blocks of a cluster: each block gives its part to all, and all combine alike.

A block's parts lie in shared memory, one of each block of the cluster, ordered by rank. All blocks
combine them in that order, so that they find the same bits. They come by a pipeline, whose verbs
stand around what gives and what combines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.carry import Carry
from warpsmith.ir.domains import BLOCK_TYPES, MemoryType, ParallelType
from warpsmith.ir.scalar import Const, Expr, Symbol
from warpsmith.kernel.agents import THREADS, Agent
from warpsmith.kernel.clusters import StoreAsync
from warpsmith.kernel.nodes import Buffer, Element, For, If, Statement, Store
from warpsmith.kernel.pipelines import Acquire, By, Commit, Content, Groups, Pipeline, Release, Wait
from warpsmith.kernel.reductions import Accumulate, Reduce
from warpsmith.kernel.rings import Advance, Begin, Cursor
from warpsmith.lower.threads import CLUSTER, Threads
from warpsmith.targets.family import WARP
from warpsmith.values import dataclass

MOST_STAGES = 16
"""Stages of an exchange in a loop: a block may be ahead of another by as many exchanges. Before the
first stage all blocks meet."""

ROOM = 2048
"""Bytes of an exchange's stages, where two of them take no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Values that blocks have reduced, and that a cluster is to reduce.

    Elements `index .. index + elements - 1` of all threads that agree on the axes not reduced are
    the same already.

    Attributes:
        carry: how two parts are joined.
        buffers: one for each value of a state, in registers.
        reduced: axes of the block along which all threads have the same values.
        threads: of those that reduce together: of the block, or of one group of a role.
        lanes: combines the values of a warp's lanes, where each warp gives its own part; None where
            the block has combined all.
        given: what blocks give of the shares that each keeps, share behind share, instead of
            `buffers`, which are to hold this block's: as `buffers`; empty where all blocks get all.
        name: of the pipeline.
        agent: that reduces; None without roles. Each of its groups has stages of its own.
        again: it stands in a loop.
    """

    carry: Carry
    buffers: tuple[Buffer, ...]
    index: Expr
    elements: int
    reduced: tuple[ParallelType, ...]
    threads: Threads
    lanes: Reduce | None = None
    given: tuple[Buffer, ...] = ()
    name: str
    agent: Agent | None = None
    again: bool

    @property
    def pipeline(self) -> Pipeline:
        """Through whose stages parts come, each block's from all of them.

        Roles free a stage by arrivals, for which two stages of each group are enough.
        """
        role, groups = ("", 1) if self.agent is None else (self.agent.name, self.agent.groups)
        blocks = tuple(range(self.threads.cluster))
        room = int(self._room.value)
        size = room * sum(buffer.dtype.size for buffer in self.buffers)
        most = 2 if role else MOST_STAGES
        stages = groups * (max(2, min(most, ROOM // size)) if self.again else 1)
        parts = (
            replace(
                each,
                name=f"{each.name}_of_blocks",
                memory=MemoryType.shared,
                size=integers.index(room * stages),
            )
            for each in self.buffers
        )
        return Pipeline(
            name=self.name,
            stages=stages,
            contents=tuple(Content(each, room, (blocks,)) for each in parts),
            by=By.SENDS,
            producer=role,
            consumers=(role,),
            groups=Groups(groups, roles=(role,)) if groups > 1 else Groups(),
            reused=self.again,
        )

    def statements(self) -> tuple[Statement, ...]:
        """Give, then combine."""
        stage, cursor = self._stage, self.cursor
        phase = cursor.phase if cursor else integers.ZERO
        return (
            Acquire(self.name, stage, integers.sub(1, phase)),
            *self._given(),
            Commit(self.name, stage),
            Wait(self.name, stage, phase),
            *self._combined(),
            Release(self.name, stage),
            *([Advance(cursor, self.pipeline.groups.count)] if cursor else []),
        )

    def begin(self) -> tuple[Statement, ...]:
        """The start of the cursor, where the first stage of a group lies."""
        return (Begin(self.cursor, self._group),) if self.cursor else ()

    @property
    def _room(self) -> Const:
        """Elements of a stage."""
        size = integers.mul(*map(self._extent, self._kept()), self.elements, self._sources)
        if not isinstance(size, Const):
            raise ScheduleError(
                f"{self.buffers[0].name} is reduced over a cluster in blocks of {size!r} threads "
                "that keep results apart, which is not a constant",
                code="WS0279",
                remedy="split the loops that are bound to the block by constants",
            )
        return size

    @property
    def _warps(self) -> int:
        """Of a block, each of which gives parts; 1 where the block does."""
        known = integers.constant(self.threads.extents[ParallelType.block_x])
        return 1 if self.lanes is None else (known or WARP) // WARP

    @property
    def _sources(self) -> int:
        """That give a part of one value to each block."""
        return self.threads.cluster * self._warps

    @property
    def parts(self) -> tuple[Buffer, ...]:
        """What all blocks gave, for each of the buffers, in each block."""
        return tuple(content.buffer for content in self.pipeline.contents)

    @property
    def cursor(self) -> Cursor | None:
        """The stage that is next; None where each is filled once."""
        return Cursor(self.name, self.pipeline.stages) if self.again else None

    @property
    def _stage(self) -> Expr:
        return self.cursor.stage if self.cursor else self._group

    @property
    def _group(self) -> Expr:
        """Number of the group."""
        if self.agent is None or self.agent.groups_along is None:
            return integers.ZERO
        return THREADS[BLOCK_TYPES.index(self.agent.groups_along)]

    def _given(self) -> tuple[Statement, ...]:
        """As many threads as there are blocks store for one each; or one thread for all."""
        blocks, own = self.threads.cluster, self._number()
        if self.lanes is not None:
            return (If(integers.less(own, blocks), self._each(lambda e: self._stores(e, own))),)
        threads = integers.constant(integers.mul(*map(self._extent, self.reduced)))
        if threads is not None and threads >= blocks and not self.given:
            body = self._each(lambda e: self._stores(e, own))
            return body if threads == blocks else (If(integers.less(own, blocks), body),)
        peer = Symbol("peer", low=0, extent=Const(blocks))
        stores = self._each(lambda e: self._stores(e, peer))
        loop = For(peer, Const(blocks), stores, unroll=True)
        return (loop,) if own == integers.ZERO else (If(integers.less(own, 1), (loop,)),)

    def _stores(self, element: Expr, to: Expr) -> tuple[Statement, ...]:
        source: Expr = self.threads.symbols[CLUSTER]
        if self.lanes is not None:
            warp = integers.floordiv(self.threads.symbols[ParallelType.block_x], WARP)
            source = integers.add(integers.mul(source, self._warps), warp)
        place = self._place(element, source)
        share = integers.add(integers.mul(to, self.elements), element)
        index = share if self.given else self._at(element)
        values = (Element(buffer, index) for buffer in self.given or self.buffers)
        at = self.pipeline.full, self._stage
        return tuple(
            StoreAsync(parts, place, value, to, *at)
            for parts, value in zip(self.parts, values, strict=True)
        )

    def _combined(self) -> tuple[Statement, ...]:
        """The first block's part, then the others' one by one; lanes share them out."""
        if self.lanes is not None:
            return *self._each(self._shared_out), self.lanes
        peer = Symbol("peer", low=0, extent=Const(self.threads.cluster - 1))

        def combined(element: Expr) -> tuple[Statement, ...]:
            first, other = (
                self._read(element, at) for at in (integers.ZERO, integers.add(peer, 1))
            )
            at = self._at(element)
            stores = (Store(b, at, part) for b, part in zip(self.buffers, first, strict=True))
            assert peer.extent is not None
            return *stores, For(peer, peer.extent, (self._more(element, other),), unroll=True)

        return self._each(combined)

    def _shared_out(self, element: Expr) -> tuple[Statement, ...]:
        """Each lane combines every 32nd part."""
        at, lane = self._at(element), self._number()
        starts = zip(self.buffers, self.carry.identity, strict=True)
        result: list[Statement] = [Store(buffer, at, start) for buffer, start in starts]
        for first in range(0, self._sources, WARP):
            more = self._more(element, self._read(element, integers.add(lane, first)))
            left = self._sources - first
            result.append(more if left >= WARP else If(integers.less(lane, left), (more,)))
        return tuple(result)

    def _more(self, element: Expr, part: tuple[Expr, ...]) -> Statement:
        """Combine one more part with what there is."""
        return Accumulate(self.carry, self.buffers, self._at(element), part)

    def _each(self, made: Callable[[Expr], tuple[Statement, ...]]) -> tuple[Statement, ...]:
        """What is done to each element."""
        if self.elements == 1:
            return made(integers.ZERO)
        symbol = Symbol("e", low=0, extent=Const(self.elements))
        return (For(symbol, Const(self.elements), made(symbol), unroll=True),)

    def _at(self, element: Expr) -> Expr:
        return integers.add(self.index, element)

    def _read(self, element: Expr, source: Expr) -> tuple[Expr, ...]:
        place = self._place(element, source)
        return tuple(Element(parts, place) for parts in self.parts)

    def _place(self, element: Expr, source: Expr) -> Expr:
        """Where a part lies: stages, elements, blocks and their warps, threads with results.

        Neighbouring threads find theirs in neighbouring banks.
        """
        kept = self._kept()
        row = integers.add(integers.mul(element, self._sources), source)
        row = integers.mul(row, *map(self._extent, kept))
        place = integers.add(row, self._linear(kept))
        return integers.add(integers.mul(self._stage, self._room), place)

    def _number(self) -> Expr:
        """Of this thread, among those that have the same values."""
        if self.lanes is not None:
            return integers.mod(self.threads.symbols[ParallelType.block_x], WARP)
        return self._linear(self.reduced)

    def _linear(self, kinds: Sequence[ParallelType]) -> Expr:
        """This thread's number along some axes of the block, the first of which is the fastest."""
        number: Expr = integers.ZERO
        for kind in reversed(kinds):
            if self._extent(kind) != integers.ONE:
                own = self.threads.symbols[kind]
                number = integers.add(integers.mul(number, self._extent(kind)), own)
        return number

    def _kept(self) -> tuple[ParallelType, ...]:
        return tuple(kind for kind in BLOCK_TYPES if kind not in self.reduced)

    def _extent(self, kind: ParallelType) -> Expr:
        return self.threads.extents.get(kind, integers.ONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanExchange(Exchange):
    """What the blocks of a cluster scanned, each its own elements, which follow each other by rank.

    Behind it `buffers` have the state of all blocks, in the order of ranks.

    Attributes:
        before: the state of those blocks that are scanned before this one, in registers.
        reverse: the last block is scanned first.
    """

    before: tuple[Buffer, ...]
    reverse: bool

    def _combined(self) -> tuple[Statement, ...]:
        """All blocks' parts, one by one; those of blocks that come first twice."""
        blocks, rank = self.threads.cluster, self.threads.symbols[CLUSTER]
        turn = Symbol("peer", low=0, extent=Const(blocks))
        peer = integers.sub(blocks - 1, turn) if self.reverse else turn
        first = integers.less(rank, peer) if self.reverse else integers.less(peer, rank)
        part = self._read(integers.ZERO, peer)
        at, ahead = integers.ZERO, self.reverse
        joins = (
            If(first, (Accumulate(self.carry, self.before, at, part, ahead),)),
            Accumulate(self.carry, self.buffers, at, part, ahead),
        )
        starts = zip((*self.before, *self.buffers), (*self.carry.identity,) * 2, strict=True)
        stores = (Store(buffer, at, start) for buffer, start in starts)
        return *stores, For(turn, Const(blocks), joins, unroll=True)
