"""What is left of a kernel when only its synchronization is looked at: straight lists of steps.

It is that of one block, or of all blocks of a cluster that reach each other, in the order of their
ranks. A skeleton knows actors, which are warps; stages of barriers; places in shared
memory; and meetings, which are barriers of the hardware that all threads of a set reach. Loops have
been walked, so that every actor has one list of steps, in which equal steps are one object. It does
not know the Kernel form, and can be written by hand.

Warps that run the same list are represented by few: the first, which may hold the elected thread,
a second one, and a third that stands for all others. Two warps beside the first are enough to see
every way in which two equal warps can be apart: warps that are not elected may trade names, so
what can happen between any two of them can happen between the second and one of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from enum import IntEnum

from warpsmith.values import dataclass


class Kind(IntEnum):
    """What a step does; `place` is the number of a barrier stage, of a place or of a meeting."""

    AWAIT = 0
    """Wait at a barrier stage for the phase of parity `amount`."""
    ARRIVE = 1
    """Arrive `amount` times a warp at a barrier stage."""
    EXPECT = 2
    """Announce `amount` bytes at a barrier stage, and arrive `arrivals` times."""
    LOAD = 3
    """Ask for a copy into `place`, whose `amount` bytes count at the stage `barrier`."""
    READ = 4
    """Threads read `place`."""
    WRITE = 5
    """Threads write `place`."""
    MEET = 6
    """Wait until all actors of a meeting have come."""
    FENCE = 7
    """Order the thread's accesses and those of the TMA unit."""
    STORE = 8
    """Ask the TMA unit to store `place`."""
    COPY = 9
    """Ask for a copy into `place` by `cp.async`."""
    COMMIT = 10
    """End a group of what goes on by itself; `amount` says of what, as numbered by `Async`."""
    JOIN = 11
    """Wait until at most `arrivals` groups of that sort are open."""
    BEGIN = 12
    """Initialize all stages of barriers: `place` and the `amount - 1` following ones."""
    END = 13
    """Invalidate them."""
    MULTIPLY = 14
    """Ask the tensor cores to multiply what lies in `place`."""
    SEND = 15
    """Like `LOAD`, of what others may fill too, each a part, in the same phase."""


class Async(IntEnum):
    """What goes on by itself until a group of it is awaited."""

    COPIES = 0
    """Copies by `cp.async`, which write as threads do."""
    STORES = 1
    """Stores by the TMA unit, which read."""
    PRODUCTS = 2
    """Products by tensor cores, which read."""

    @property
    def words(self) -> str:
        return ("cp.async copies", "stores by the TMA unit", "products by tensor cores")[self]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an actor; see `Kind`."""

    kind: Kind
    place: int = 0
    amount: int = 0
    barrier: int = -1
    arrivals: int = 0


@dataclass(frozen=True, slots=True)
class Actor:
    """A warp, or several equal ones.

    Attributes:
        name: in messages, such as `compute[1], warp 0`.
        role: name of its role.
        weight: warps that it stands for.
        block: its rank in the cluster.
    """

    name: str
    role: str
    steps: Sequence[Step]
    weight: int = 1
    block: int = 0


@dataclass(frozen=True, slots=True)
class BarrierStage:
    """One mbarrier.

    Attributes:
        name: of the barriers that it is one of, such as `ring0_full`.
        count: arrivals that complete a phase.
        begun: it is initialized before any actor starts.
        block: whose shared memory it is in.
    """

    name: str
    stage: int
    count: int
    begun: bool = True
    block: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """A stage of a buffer in shared memory, a group's part of one, or the share that a block loads.

    Attributes:
        private: each thread reads only what it wrote itself, so threads need not be ordered.
        by_tma: the TMA unit writes or reads it, or what overlaps it, at some time, or tensor cores
            multiply it.
        overlaps: other places that have bytes in common with it.
        block: whose shared memory it is in.
    """

    buffer: str
    stage: int
    private: bool = False
    by_tma: bool = True
    overlaps: tuple[int, ...] = ()
    block: int = 0


@dataclass(frozen=True, slots=True)
class Meeting:
    """A named barrier, or that of the whole block, with the numbers of those who must come."""

    name: str
    actors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Skeleton:
    """All actors of one block, or of those of a cluster, and what they synchronize by."""

    actors: tuple[Actor, ...]
    barriers: tuple[BarrierStage, ...] = ()
    places: tuple[Place, ...] = ()
    meetings: tuple[Meeting, ...] = field(default=())

    @property
    def steps(self) -> int:
        """Of all actors together."""
        return sum(len(actor.steps) for actor in self.actors)

    @property
    def blocks(self) -> int:
        """How many there are."""
        return 1 + max((actor.block for actor in self.actors), default=0)
