"""Load the first tiles of what no kernel of the call writes while the kernel before still runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.scalar import Expr
from warpsmith.kernel.agents import Kind
from warpsmith.kernel.clock import AwaitClock, StartClock
from warpsmith.kernel.clusters import AnnounceStart
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import For, If, Statement
from warpsmith.kernel.rings import (
    ELECTED,
    Advance,
    Await,
    Begin,
    Cursor,
    Expect,
    InitBarriers,
    TileCopy,
)
from warpsmith.kernel.traversal import map_bodies, replace_symbols, walk, with_body
from warpsmith.values import dataclass

_READY = InitBarriers | AnnounceStart

LATENCY_NS = 1000
"""From asking the memory until bytes come: what it brings in that time is asked for at once."""

_Path = tuple[For | If, ...]


def load_ahead(kernel: Kernel, settled: Collection[str], pace: float = 0.0) -> Kernel:
    """An elected thread fills all stages with what is the first to leave the L2 and nobody writes,
    such as weights that few rows are multiplied by; the other operand comes once it is there.

    That is before blocks of a cluster await each other, before roles part, and before all threads
    await the kernel before. Before, with six stages::

        role load:  for tile: for k < K: {
                      await empty; expect; T4[..] = T0[k]; T5[..] = T1[tile, k] }

    After::

        if elected: for tile < 1: for k < min(K, 6): { expect; T5[..] = T1[tile, k] }
        role load:  for tile: for k < K: {
                      if 5 < 6 * tile + k: { await empty; expect; T5[..] = T1[tile, k] }
                      T4[..] = T0[k] }

    The kernel before may have to read yet: so that it is not behind all stages of all blocks in the
    memory's queue, no more of them are asked for than the memory could have brought so far.

    Args:
        settled: names of tensors that no kernel of the call writes.
        pace: bytes a nanosecond that a block may ask for; 0 for all at once.
    """
    stages = {pipeline.full.name: pipeline.stages for pipeline in kernel.pipelines}
    for branch in kernel.branches:
        if branch.agent.kind is not Kind.COPY or not branch.agent.elected:
            continue
        filling = _Filling.of(branch.body, settled, stages)
        if filling is not None:
            made = max(n for n, s in enumerate(kernel.body) if isinstance(s, _READY)) + 1
            ahead = If(ELECTED, filling.ahead(pace))
            behind = replace(branch, body=filling.behind(branch.body))
            body = (*kernel.body[:made], ahead, *kernel.body[made:])
            return replace(kernel, body=tuple(behind if s is branch else s for s in body))
    return kernel


@dataclass(frozen=True, slots=True)
class _Filling:
    """A loop each of whose iterations fills a stage.

    Attributes:
        around: loops and conditions that it stands in, outermost first.
        settled: names of what may be loaded ahead.
        count: stages.
    """

    around: _Path
    loop: For
    settled: Collection[str]
    count: int

    @classmethod
    def of(
        cls, statements: Sequence[Statement], settled: Collection[str], stages: dict[str, int]
    ) -> _Filling | None:
        """That of an agent; None where it does more, or nothing is to be loaded ahead."""
        path = _path_to_copies(statements)
        if path is None:
            return None
        *around, loop = path
        assert isinstance(loop, For)
        own = [s for s in loop.body if not isinstance(s, For | TileCopy)]
        if [type(s) for s in own] != [Await, Expect, Advance]:
            return None
        copies = [s for s in walk(loop.body) if s not in own and not isinstance(s, For)]
        filled = own[1]
        assert isinstance(filled, Expect)
        made = cls(tuple(around), loop, settled, stages[filled.barrier.name])
        if not all(isinstance(s, TileCopy) for s in copies):
            return None
        asked = (s for s in copies if isinstance(s, TileCopy) and s.evict_first)
        return made if any(map(made.is_settled, asked)) else None

    def is_settled(self, copy: TileCopy) -> bool:
        own = copy.how is LoadStoreOpType.tma and not copy.stores and copy.multicast is None
        return own and copy.memory.name in self.settled

    def copies(self, statements: Sequence[Statement], *, settled: bool) -> Iterator[Statement]:
        """Those of what is settled, or the others, in the loops that they stand in."""
        for statement in statements:
            if isinstance(statement, TileCopy):
                if self.is_settled(statement) is settled:
                    yield statement
            elif isinstance(statement, For):
                inside = tuple(self.copies(statement.body, settled=settled))
                if inside:
                    yield with_body(statement, inside)

    def ahead(self, pace: float) -> tuple[Statement, ...]:
        """What is asked for before the wait, of the first tile."""
        cursor = next(s.cursor for s in self.loop.body if isinstance(s, Advance))
        own = Cursor(f"{cursor.name}_ahead", cursor.stages)
        places: dict[Expr, Expr] = dict(zip(cursor.symbols, own.symbols, strict=True))
        asked = next(s for s in self.loop.body if isinstance(s, Expect))
        size = integers.constant(asked.bytes)
        clock: tuple[Statement, ...] = ()
        filled = (asked, *self.copies(self.loop.body, settled=True))
        if pace and size is not None:
            interval = max(round(size / pace), 1)
            times = integers.sub(self.loop.symbol, -(-LATENCY_NS // interval))
            clock = (StartClock(),)
            filled = (AwaitClock(times, interval), *filled)
        body = (*(replace_symbols(s, places) for s in filled), Advance(own))
        few = integers.minimum(self.loop.extent, self.count)
        inner: For | If = replace(self.loop, extent=few, body=body)
        for each in reversed(self.around):
            inner = with_body(each, (inner,))
            if isinstance(inner, For):
                inner = replace(inner, extent=integers.minimum(inner.extent, 1))
        return *clock, Begin(own), inner

    def behind(self, statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """The agent's body, which fills what is not settled, and all but what came ahead."""
        tiles = (s.symbol for s in self.around if isinstance(s, For))
        turn = integers.add(self.loop.symbol, *(integers.mul(tile, self.count) for tile in tiles))
        waits = (s for s in self.loop.body if isinstance(s, Await | Expect))
        moves = (s for s in self.loop.body if isinstance(s, Advance))
        settled, others = (self.copies(self.loop.body, settled=which) for which in (True, False))
        later = If(integers.less(self.count - 1, turn), (*waits, *settled))
        body = (later, *others, *moves)

        def changed(inside: tuple[Statement, ...]) -> tuple[Statement, ...]:
            return tuple(
                replace(s, body=body) if s is self.loop else map_bodies(s, changed) for s in inside
            )

        return changed(statements)


def _path_to_copies(statements: Sequence[Statement]) -> _Path | None:
    """The loops and conditions down to the loop whose iterations await a stage, where nothing else
    stands in them but the start of cursors.
    """
    inside = [s for s in statements if not (isinstance(s, Begin) and s.stage == integers.ZERO)]
    only = inside[0] if len(inside) == 1 else None
    if not isinstance(only, For | If):
        return None
    if isinstance(only, For) and any(isinstance(s, Await) for s in only.body):
        return (only,)
    deeper = _path_to_copies(only.body)
    return None if deeper is None else (only, *deeper)
