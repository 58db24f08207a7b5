"""The agent that hands out tiles, and the loops of the others over what they are handed."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Symbol
from warpsmith.ir.tensor import Operation
from warpsmith.kernel.agents import Agent, Branch, Kind
from warpsmith.kernel.nodes import Buffer, For, Statement
from warpsmith.kernel.pipelines import By, Content, OneStage, Pipeline
from warpsmith.kernel.tile_scheduler import ReadTile, TakeTile, WithTile
from warpsmith.lower.buffers import Buffers
from warpsmith.lower.dealt import Dealt, dealt_by
from warpsmith.values import dataclass

NAME = "tiles"
"""Of the agent, of its pipeline, and of the buffer that holds numbers of tiles."""

STAGES = 2
"""The next number is known while the tile before it is worked on."""

MOST = 2**30
"""Numbers that are handed out at most: the counter has 32 bits."""


@dataclass(frozen=True, slots=True)
class HandedOut(Dealt):
    """What is handed out to blocks: the iterations of a loop that is bound to `dynamic`."""

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
    dealt = dealt_by(operations, buffers.domains, ParallelType.dynamic, (), _refused)
    return HandedOut(dealt.count, dealt.blocks, dealt.whole)


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
