"""Warp specialization in the Kernel form: agents, their kinds and their bodies.

A kernel whose body holds `Branch`es starts with what all threads do together; then each warp runs
the body of its own agent, and nothing follows. A schedule names roles; the warps that do the work
of one are an agent. Agents for which the TMA unit does all the work are one elected thread: they
are single warps, packed into padded warp groups at the start of the block. Agents of many threads
follow, each from a multiple of 32 threads on.
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from warpsmith.ir import integers
from warpsmith.ir.domains import BLOCK_TYPES, ParallelType
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.kernel.effects import body, defines
from warpsmith.kernel.nodes import Element, Statement
from warpsmith.targets.family import WARP
from warpsmith.values import dataclass

THREADS = tuple(Symbol(kind.name) for kind in BLOCK_TYPES)
"""Indices of a thread in its block, which every agent counts for itself."""


def is_of_warps(condition: Expr) -> bool:
    """Whether lanes of a warp have the same condition, where threads along x are whole warps."""
    return not any(
        isinstance(e, Element) or (isinstance(e, Symbol) and e.name == THREADS[0].name)
        for e in condition.walk()
    )


class Kind(Enum):
    """What the warps of an agent do."""

    COPY = "copy"
    """They bring tiles into shared memory, and compute nothing."""
    MULTIPLY = "multiply"
    """They multiply by tensor cores, as whole warp groups, and whatever goes with it."""
    COMPUTE = "compute"
    """They compute as threads."""
    STORE = "store"
    """They bring what others computed to global memory, and compute nothing."""
    TILES = "tile scheduler"
    """They say which tile is next, or which rows it has."""

    @property
    def moves(self) -> bool:
        """Whether it computes nothing: one thread does, where the TMA unit does the work, and few
        registers."""
        return self in (Kind.COPY, Kind.STORE, Kind.TILES)


@dataclass(frozen=True, slots=True)
class Agent:
    """A set of warps that run one body, with loops of its own.

    The kernel of a product may have two::

        Agent("load", 0, (ONE, ONE, ONE), kind=Kind.COPY, elected=True)
        Agent("compute", 4, (Const(128), Const(2), ONE), groups_along=ParallelType.block_y,
              kind=Kind.MULTIPLY, barrier=1)

    Attributes:
        name: of the role whose work it does.
        first_warp: of the block.
        block: threads along x, y, z, of all groups together.
        groups_along: the axis whose threads are groups that do not meet: each runs the body for
            itself, with cursors and a named barrier of its own. They are numbered by that axis,
            which then is the slowest of its threads. None where all threads are one group.
        elected: one elected thread of the one warp runs the body.
        barrier: id of the first group's named barrier; the next groups have the next ones. 0 where
            its threads never meet.
        registers: a thread may have after `setmaxnreg`; None leaves what the launch gives.
        common: id of the named barrier at which all groups meet, in reductions across them; 0 where
            they never do.
    """

    name: str
    first_warp: int
    block: tuple[Expr, Expr, Expr]
    groups_along: ParallelType | None = None
    elected: bool = False
    barrier: int = 0
    registers: int | None = None
    common: int = 0
    kind: Kind = Kind.COMPUTE

    @property
    def text(self) -> str:
        """`mma: multiply, warps from 4, 128 x 2 x 1 threads, 2 groups along block_y, barrier 1`."""
        block = " x ".join(map(repr, self.block))
        parts = [f"{self.name}: {self.kind.value}", f"warps from {self.first_warp}"]
        parts.append("one elected thread" if self.elected else f"{block} threads")
        if self.groups_along is not None:
            parts.append(f"{self.groups} groups along {self.groups_along.name}")
        if self.barrier:
            parts.append(f"barrier {self.barrier}")
        if self.registers is not None:
            parts.append(f"{self.registers} registers")
        return ", ".join(parts)

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """What has other values inside its body."""
        return THREADS

    @property
    def threads(self) -> Expr:
        """Of all groups together."""
        return integers.mul(*self.block)

    @property
    def groups(self) -> int:
        """Groups that do not meet."""
        if self.groups_along is None:
            return 1
        count = integers.constant(self.block[BLOCK_TYPES.index(self.groups_along)])
        assert count is not None
        return count

    @property
    def barriers(self) -> range:
        """Ids of its named barriers."""
        if not self.barrier:
            return range(0)
        return range(self.barrier, self.barrier + self.groups + (self.common > 0))

    @property
    def group_block(self) -> tuple[Expr, Expr, Expr]:
        """Threads along x, y, z of one group."""
        x, y, z = (
            integers.ONE if kind is self.groups_along else extent
            for kind, extent in zip(BLOCK_TYPES, self.block, strict=True)
        )
        return x, y, z

    @property
    def group_threads(self) -> Expr:
        return integers.mul(*self.group_block)

    @property
    def is_warp(self) -> bool:
        """Whether the threads of a group are those of one warp, which need no barrier to meet."""
        return not self.elected and integers.constant(self.group_threads) == WARP

    @property
    def group_warps(self) -> Expr:
        """Warps of one group; the last may be cut short where there is one group only."""
        return integers.ceildiv(self.group_threads, WARP)


@dataclass(frozen=True, slots=True)
class Branch(Statement):
    """What the warps of one agent do. Those of a kernel follow each other and end its body."""

    words = "agent {agent.text}"

    agent: Agent = field(metadata=defines())
    body: tuple[Statement, ...] = field(metadata=body())
