"""Let the blocks of a cluster combine what each of them has reduced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from functools import partial
from typing import TypedDict

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.kernel.agents import Agent, Branch
from warpsmith.kernel.kernel import Kernel, Launch
from warpsmith.kernel.nodes import Buffer, Declare, Element, For, Statement, Store
from warpsmith.kernel.reductions import Accumulate, Reduce, ScanElements
from warpsmith.kernel.traversal import map_bodies
from warpsmith.lower.exchanges import Exchange, ScanExchange
from warpsmith.lower.threads import Threads, threads_of
from warpsmith.targets.family import WARP
from warpsmith.values import dataclass

WARP_PARTS = 64
"""Parts that a block may get of one value. Where the warps of all blocks are no more, each warp
gives its own part, and no block combines them first."""


def exchange_parts(kernel: Kernel) -> Kernel:
    """Split each reduction over a cluster: across the block, then from block to block.

    Before::

        for i: { ..;  reduce T1 by sum over block_x, 2 blocks }

    After::

        exchange0: stages of T1_of_blocks by st.async, for blocks (0, 1)
        for i: { ..;  reduce T1 by sum over block_x
                 acquire;  if block_x < 2: { T1_of_blocks[stage.., rank] of block block_x = T1 }
                 commit;  wait;  T1 = T1_of_blocks[stage.., 0] + T1_of_blocks[stage.., 1]
                 release;  advance }

    What a block reads lies in its own memory, and nobody waits for more than these bytes; a barrier
    of the cluster would also wait until all that its threads stored to global memory is there.
    What happens once needs no stages.

    Where each block keeps a share of the results, it gives the others what it has of theirs::

        reduce T1_shares over 2 blocks, a share to T1

        acquire;  for peer: T1_of_blocks[stage.., rank] of block peer = T1_shares[peer];  ..

    Where a row is all that a block has, and has few warps, only lanes reduce before the exchange.
    Each warp gives a part, the block does not meet, and each warp combines the parts of all::

        reduce T1 by sum over lanes;  acquire
        if block_x % 32 < 2: { T1_of_blocks[rank, warp] of block block_x % 32 = T1 };  commit
        wait;  T1 = 0;  if block_x % 32 < parts: { T1 += T1_of_blocks[block_x % 32] };  release
        reduce T1 by sum over lanes
    """
    if kernel.launch.cluster_blocks == 1:
        return kernel
    made = _Made()
    body = _Splitter(kernel.launch, made).body(kernel.body)
    kept = tuple(buffer for buffer in kernel.shared if buffer.name not in made.gone)
    parts = tuple(buffer for each in made.exchanges for buffer in each.parts)
    return replace(
        kernel,
        body=body,
        shared=(*kept, *parts),
        pipelines=(*kernel.pipelines, *(each.pipeline for each in made.exchanges)),
    )


@dataclass(slots=True)
class _Made:
    """What stands in a kernel's bodies.

    Attributes:
        gone: names of scratch that no reduction across the block needs.
    """

    exchanges: list[Exchange] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)


class _Common(TypedDict):
    name: str
    threads: Threads
    agent: Agent | None
    again: bool


@dataclass(slots=True)
class _Splitter:
    """Splits the reductions of one body, that of the kernel or of a role."""

    launch: Launch
    made: _Made
    agent: Agent | None = None

    def body(self, statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """The body behind the start of its cursors."""
        split = self._statements(statements, inside=False)
        own = (each.begin() for each in self.made.exchanges if each.agent is self.agent)
        return (*(begin for each in own for begin in each), *split)

    @property
    def threads(self) -> Threads:
        """Of those who run the body."""
        return threads_of(self.launch)

    def _statements(
        self, statements: Sequence[Statement], *, inside: bool
    ) -> tuple[Statement, ...]:
        """A list with its reductions split; `inside` tells that it may run more than once."""
        result: list[Statement] = []
        for statement in statements:
            if isinstance(statement, Branch):
                launch = replace(self.launch, block=statement.agent.group_block)
                own = _Splitter(launch, self.made, statement.agent)
                result.append(replace(statement, body=own.body(statement.body)))
            elif isinstance(statement, Reduce) and statement.blocks > 1:
                result += self._split(statement, inside=inside)
            elif isinstance(statement, ScanElements) and statement.blocks > 1:
                result += self._scan(statement, inside=inside)
            else:
                again = inside or isinstance(statement, For)
                result.append(map_bodies(statement, partial(self._statements, inside=again)))
        return tuple(result)

    def _split(self, reduce: Reduce, *, inside: bool) -> list[Statement]:
        by_warps = self._is_by_warps(reduce)
        lanes = replace(reduce, blocks=1, lanes=True)
        exchange = Exchange(
            carry=reduce.carry,
            buffers=reduce.kept or reduce.buffers,
            index=reduce.kept_index if reduce.kept else reduce.index,
            elements=reduce.share if reduce.kept else reduce.elements,
            given=reduce.buffers if reduce.kept else (),
            reduced=reduce.block_axes,
            lanes=lanes if by_warps else None,
            **self._common(reduce, inside=inside),
        )
        self.made.exchanges.append(exchange)
        if by_warps or not reduce.block_axes:
            self.made.gone.add(reduce.scratch.name)
            return [*([lanes] if by_warps else []), *exchange.statements()]
        return [replace(reduce, blocks=1, kept=()), *exchange.statements()]

    def _common(self, statement: Reduce | ScanElements, *, inside: bool) -> _Common:
        """What exchanges of all sorts know.

        Raises:
            ScheduleError: WS0273.
        """
        agent = self.agent
        if agent is not None and agent.groups_along in statement.block_axes:
            raise ScheduleError(
                f"{statement.buffers[0].name} is reduced over a cluster in role `{agent.name}`, "
                f"and across its {agent.groups} groups of warps, which take turns",
                code="WS0273",
                remedy="reduce it within a group, or bind nothing to cluster_x",
            )
        name = f"exchange{len(self.made.exchanges)}"
        return {"name": name, "threads": self.threads, "agent": agent, "again": inside}

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
        exchange = ScanExchange(
            carry=scan.carry,
            buffers=own,
            index=zero,
            elements=1,
            reduced=scan.block_axes,
            before=before,
            reverse=scan.reverse,
            **self._common(scan, inside=inside),
        )
        self.made.exchanges.append(exchange)
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

    def _is_by_warps(self, reduce: Reduce) -> bool:
        """Whether each warp gives a part of its own."""
        x, y, z = (integers.constant(extent) for extent in self.launch.block)
        return (
            reduce.block_axes == (ParallelType.block_x,)
            and not reduce.kept
            and x is not None
            and x % WARP == 0
            and (y, z) == (1, 1)
            and x // WARP * self.threads.cluster <= WARP_PARTS
        )
