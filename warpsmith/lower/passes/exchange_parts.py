"""Let the blocks of a cluster combine what each of them has reduced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES, MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Declare, Element, For, Statement, Store, Synchronize
from warpsmith.kernel.reductions import Accumulate, Reduce, ScanElements
from warpsmith.kernel.rings import Begin, Cursor, InitBarriers
from warpsmith.kernel.scratch import block_reduce_scratch, block_scan_scratch
from warpsmith.kernel.traversal import map_bodies
from warpsmith.lower.exchanges import Exchange, ScanExchange
from warpsmith.lower.threads import Threads, threads_of
from warpsmith.targets.family import WARP

T = TypeVar("T", bound=Exchange)

COUNTED = (4, 8)
"""Bytes of the elements that `st.async` stores."""

MOST_STAGES = 16
"""Stages of an exchange in a loop: a block may be ahead of another by as many exchanges. Before the
first stage all blocks meet."""

ROOM = 2048
"""Bytes of an exchange's stages, where two of them take no more."""

WARP_PARTS = 64
"""Parts that a block may get of one value. Where the warps of all blocks are no more, each warp
gives its own part, and no block combines them first."""


def exchange_parts(kernel: Kernel) -> Kernel:
    """Split each reduction over a cluster: across the block, then from block to block.

    Before::

        for i: { ..;  reduce T1 by sum over block_x, 2 blocks }

    After::

        barriers T1_given[2]
        for i: { ..;  reduce T1 by sum over block_x
                 if stage == 0: { all blocks meet;  fence }
                 if elected: { expect the bytes of 2 blocks at T1_given[stage] }
                 if block_x < 2: { T1_of_blocks[stage.., rank] of block block_x = T1, counted }
                 await T1_given[stage];  T1 = T1_of_blocks[stage.., 0] + T1_of_blocks[stage.., 1]
                 advance T1_turn }

    What a block reads lies in its own memory, and nobody waits for more than these bytes; a barrier
    of the cluster would also wait until all that its threads stored to global memory is there. In a
    loop blocks meet once in so many turns. What happens once needs no stages and no such barrier.
    Where the threads of a block do not meet in the reduction, or elements have no 4 or 8 bytes,
    blocks store to each other and meet, as `order` finds.

    Where a row is all that a block has, and has few warps, only lanes reduce before the exchange.
    Each warp gives a part, the block does not meet, and each warp combines the parts of all::

        reduce T1 by sum over lanes;  if elected: { expect .. }
        if block_x % 32 < 2: { T1_of_blocks[rank, warp] of block block_x % 32 = T1, counted }
        await T1_given;  T1 = 0;  if block_x % 32 < parts: { T1 += T1_of_blocks[block_x % 32] }
        reduce T1 by sum over lanes
    """
    if kernel.launch.cluster_blocks == 1:
        return kernel
    made = _Made(threads_of(kernel.launch))
    body = made.statements(kernel.body, inside=False)
    kept = tuple(buffer for buffer in kernel.shared if buffer.name not in made.gone)
    return replace(
        kernel,
        body=_begun(body, made),
        shared=(*kept, *made.parts, *made.barriers),
        exchanged=kernel.exchanged | {buffer.name for buffer in made.parts},
    )


@dataclass(slots=True)
class _Made:
    """What exchanges need besides their statements.

    Attributes:
        gone: names of scratch that no reduction across the block needs.
    """

    threads: Threads
    parts: list[Buffer] = field(default_factory=list)
    barriers: list[Buffer] = field(default_factory=list)
    cursors: list[Cursor] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)

    def statements(self, statements: Sequence[Statement], *, inside: bool) -> tuple[Statement, ...]:
        """A list with its reductions split; `inside` tells that it may run more than once."""
        result: list[Statement] = []
        for statement in statements:
            if isinstance(statement, Reduce) and statement.blocks > 1:
                result += self._split(statement, inside=inside)
                continue
            if isinstance(statement, ScanElements) and statement.blocks > 1:
                result += self._scan(statement, inside=inside)
                continue
            again = inside or isinstance(statement, For)
            result.append(map_bodies(statement, partial(self.statements, inside=again)))
        return tuple(result)

    def _split(self, reduce: Reduce, *, inside: bool) -> list[Statement]:
        name, by_warps = reduce.buffers[0].name, self._is_by_warps(reduce)
        counted = by_warps or self._is_counted(reduce)
        lanes = replace(reduce, blocks=1, lanes=True)
        barrier = Buffer(f"{name}_given", DataType.Int, MemoryType.shared, integers.ONE)
        exchange = Exchange(
            carry=reduce.carry,
            buffers=reduce.buffers,
            index=reduce.index,
            elements=reduce.elements,
            reduced=reduce.block_axes,
            threads=self.threads,
            lanes=lanes if by_warps else None,
            barrier=barrier if counted else None,
        )
        exchange = self._noted(exchange, inside=inside)
        if by_warps or not reduce.block_axes:
            self.gone.add(reduce.scratch.name)
            return [*([lanes] if by_warps else []), *exchange.statements()]
        return [replace(reduce, blocks=1), *exchange.statements()]

    def _noted(self, exchange: T, *, inside: bool) -> T:
        """The exchange, with as many stages as it needs, and what it needs."""
        barrier, name = exchange.barrier, exchange.buffers[0].name
        if barrier is not None and inside:
            stages = max(2, min(MOST_STAGES, ROOM // exchange.bytes))
            barrier = replace(barrier, size=integers.index(stages))
            exchange = replace(exchange, barrier=barrier, cursor=Cursor(f"{name}_turn", stages))
        self.parts += exchange.parts
        self.barriers += [barrier] if barrier is not None else []
        self.cursors += [exchange.cursor] if exchange.cursor is not None else []
        return exchange

    def _scan(self, scan: ScanElements, *, inside: bool) -> list[Statement]:
        """Scan each block's elements alone; tell all blocks what they come to; put what comes
        before this block before each of its elements.
        """
        name, zero = scan.buffers[0].name, integers.ZERO
        own, before = (
            tuple(
                Buffer(f"{name}_{what}_{state}", dtype, MemoryType.local, integers.ONE)
                for state, dtype in zip(scan.carry.states, scan.carry.dtypes, strict=True)
            )
            for what in ("own", "before")
        )
        barrier = Buffer(f"{name}_given", DataType.Int, MemoryType.shared, integers.ONE)
        exchange = ScanExchange(
            carry=scan.carry,
            buffers=own,
            index=zero,
            elements=1,
            reduced=scan.block_axes,
            threads=self.threads,
            barrier=barrier if self._meets_in(scan) else None,
            before=before,
            reverse=scan.reverse,
        )
        exchange = self._noted(exchange, inside=inside)
        element = Symbol("e", low=0, extent=integers.index(scan.elements))
        ahead = not scan.reverse

        def read(buffers: tuple[Buffer, ...], index: Expr = zero) -> tuple[Expr, ...]:
            return tuple(Element(buffer, index) for buffer in buffers)

        at = integers.add(scan.index, element)
        shifted = Accumulate(scan.carry, scan.buffers, at, read(before), ahead)
        starts = zip(own, scan.carry.identity, strict=True)
        return [
            *map(Declare, (*own, *before)),
            *(Store(buffer, zero, start) for buffer, start in starts),
            replace(scan, states=own, state_index=zero, blocks=1),
            *exchange.statements(),
            Accumulate(scan.carry, before, zero, read(scan.states, scan.state_index), ahead),
            For(element, integers.index(scan.elements), (shifted,), unroll=True),
            Accumulate(scan.carry, scan.states, scan.state_index, read(own), scan.reverse),
        ]

    def _meets_in(self, scan: ScanElements) -> bool:
        """Whether the threads of a block meet in a scan, and `st.async` can store its states."""
        x, y, z = (integers.constant(self.threads.extents[kind]) for kind in BLOCK_TYPES)
        if x is None or y is None or z is None:
            return False
        stored = all(dtype.size in COUNTED for dtype in scan.carry.dtypes)
        axes = map(BLOCK_TYPES.index, scan.block_axes)
        return stored and any(block_scan_scratch(axis, (x, y, z)) for axis in axes)

    def _is_by_warps(self, reduce: Reduce) -> bool:
        """Whether each warp gives a part of its own."""
        x, y, z = (integers.constant(self.threads.extents[kind]) for kind in BLOCK_TYPES)
        return (
            reduce.block_axes == (ParallelType.block_x,)
            and x is not None
            and x % WARP == 0
            and (y, z) == (1, 1)
            and x // WARP * self.threads.cluster <= WARP_PARTS
            and all(buffer.dtype.size in COUNTED for buffer in reduce.buffers)
        )

    def _is_counted(self, reduce: Reduce) -> bool:
        """Whether a barrier counts what is given: the block meets, and `st.async` can store it."""
        x, y, z = (integers.constant(self.threads.extents[kind]) for kind in BLOCK_TYPES)
        stored = all(buffer.dtype.size in COUNTED for buffer in reduce.buffers)
        if x is None or y is None or z is None or not stored:
            return False
        rx, ry, rz = (kind in reduce.block_axes for kind in BLOCK_TYPES)
        return block_reduce_scratch(reduce.elements, (rx, ry, rz), (x, y, z)) > 0


def _begun(body: tuple[Statement, ...], made: _Made) -> tuple[Statement, ...]:
    """The body behind the start of barriers and cursors."""
    arrivals: tuple[tuple[Buffer, Expr | None], ...]
    arrivals = tuple((barrier, integers.ONE) for barrier in made.barriers)
    first = body[0] if body else None
    if isinstance(first, InitBarriers):
        body = (replace(first, arrivals=(*first.arrivals, *arrivals)), *body[1:])
    elif arrivals:
        body = (InitBarriers(arrivals), *body)
    start = 0
    while start < len(body) and isinstance(body[start], InitBarriers | Synchronize):
        start += 1
    return (*body[:start], *map(Begin, made.cursors), *body[start:])
