"""The agent that hands out tiles, and the loops of the others over what they are handed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType, ParallelType, Split
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Scan
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.ir.tensor import Operation
from warpsmith.kernel.agents import Agent, Branch, Kind
from warpsmith.kernel.nodes import Buffer, For, Statement
from warpsmith.kernel.pipelines import By, Content, OneStage, Pipeline
from warpsmith.kernel.tile_scheduler import ReadTile, TakeTile, WithTile
from warpsmith.lower.buffers import Buffers

NAME = "tiles"
"""Of the agent, of its pipeline, and of the buffer that holds numbers of tiles."""

STAGES = 2
"""The next number is known while the tile before it is worked on."""

MOST = 2**30
"""Numbers that are handed out at most: the counter has 32 bits."""


@dataclass(frozen=True, slots=True)
class HandedOut:
    """What is handed out to blocks: the iterations of a loop that is bound to `dynamic`.

    Its schedule is that of blocks which go round tiles, `[turn, block]`, of which one split made
    both loops; a number that is handed out is an iteration of the loop that was split.

    Attributes:
        count: how many numbers there are.
        blocks: iterations of the loop over blocks.
    """

    count: Expr
    blocks: Expr

    @property
    def buffer(self) -> Buffer:
        size = integers.index(STAGES)
        return Buffer(NAME, DataType.Int32, MemoryType.shared, size, guarded=True)

    def loop(self, name: str) -> tuple[Symbol, Symbol]:
        """The index of a loop, and the number that it is handed, below `count` where it is used."""
        turns = integers.add(self.count, 1)
        tile = Symbol(f"{name}_tile", low=0, extent=self.count)
        return Symbol(name, low=0, extent=turns), tile

    def over(self, turn: Symbol, tile: Symbol, body: Sequence[Statement]) -> Statement:
        """A loop over the numbers that the block is handed."""
        read = ReadTile(tile, self.buffer, integers.ZERO)
        return self._loop(turn, tile, read, tuple(body))

    def places(self, tile: Expr) -> tuple[Expr, Expr]:
        """The indices of the loops `[turn, block]` for a number."""
        return integers.floordiv(tile, self.blocks), integers.mod(tile, self.blocks)

    def pipeline(self, roles: Sequence[str]) -> Pipeline:
        """What brings numbers to the agents of all roles."""
        return Pipeline(
            name=NAME,
            stages=STAGES,
            contents=(Content(self.buffer, 1),),
            by=By.THREADS,
            producer=NAME,
            consumers=tuple(roles),
        )

    def branch(self) -> Branch:
        """The agent that takes numbers from the counter, one elected thread."""
        turn, tile = self.loop(f"{NAME}_i")
        take = TakeTile(tile, counter(), self.count, self.buffer, integers.ZERO)
        body = self._loop(turn, tile, take, ())
        one = (integers.ONE, integers.ONE, integers.ONE)
        return Branch(Agent(NAME, 0, one, elected=True, kind=Kind.TILES), (body,))

    def _loop(
        self, turn: Symbol, tile: Symbol, head: Statement, body: tuple[Statement, ...]
    ) -> Statement:
        stage = OneStage((NAME,), (head, WithTile(tile, self.count, body)))
        return For(turn, integers.add(self.count, 1), (stage,), unroll=False)


def counter() -> Buffer:
    """The number that is taken next: 0 before and after the launch."""
    return Buffer(f"{NAME}_arrivals", DataType.Int32, MemoryType.global_, integers.ONE)


def handed_out(
    operations: Sequence[Operation], buffers: Buffers, roles: Sequence[str]
) -> HandedOut | None:
    """What is handed out in a kernel; None where no loop is bound to `dynamic`.

    Raises:
        ScheduleError: WS0381 for loops that cannot be handed out.
    """
    bound = [op for op in operations if _is_dynamic(op)]
    if not bound:
        return None
    if not roles or NAME in roles:
        raise _refused(f"no role may be called `{NAME}`" if roles else "the kernel has no roles")
    domains = buffers.domains
    found: set[tuple[int, int, int]] = set()
    for operation in operations:
        name, loops = operation.outputs[0].name, operation.outputs[0].loop
        kinds = [axis.parallel for axis in loops]
        if kinds[:1] != [ParallelType.dynamic] or kinds[1:2] != [ParallelType.grid_x]:
            raise _refused(f"{name} has the loops {loops!r}")
        if any(kind.is_of_blocks or kind is ParallelType.dynamic for kind in kinds[2:]):
            raise _refused(f"{name} has other loops over blocks, too: {loops!r}")
        if isinstance(operation, Scan) or any(axis.is_reduction for axis in loops[:2]):
            raise _refused(f"{name} joins what comes from one iteration to the next")
        turn, block = map(domains.group, loops[:2])
        wholes = {
            domains.sides(made)[0]
            for made in domains.touching(turn)
            if isinstance(made, Split) and domains.sides(made)[1:] == (turn, block)
        }
        if not wholes:
            raise _refused(f"no split made the first two of the loops {loops!r} of {name}")
        found.add((wholes.pop(), turn, block))
    if len(found) > 1:
        raise _refused("tensors have different loops there")
    ((whole, _, block),) = found
    return HandedOut(domains.extent(whole), domains.extent(block))


def _is_dynamic(operation: Operation) -> bool:
    return any(axis.parallel is ParallelType.dynamic for axis in operation.outputs[0].loop)


def _refused(why: str) -> ScheduleError:
    return ScheduleError(
        f"iterations of a loop on `dynamic` are handed out to blocks, and {why}",
        code="WS0381",
        remedy="give loads a role; split the loop over tiles by the number of blocks; bind the "
        "outer part, the first loop of all tensors, to dynamic, and the inner one, the second, to "
        "grid_x",
    )
