"""How a warp brings what it holds from one layout to another: the cheapest of four ways."""

from __future__ import annotations

from collections import Counter
from enum import Enum

from warpsmith.layouts.algebra import LANES, REGISTERS, conversion
from warpsmith.layouts.banks import clocks, least_swizzle
from warpsmith.layouts.layout import Layout, Piece, Place
from warpsmith.layouts.memory import MemoryLayout
from warpsmith.layouts.swizzle import HARDWARE
from warpsmith.values import dataclass

WARP = 32

SELECT_CLOCKS = 0.5
"""Clocks of a multiprocessor for a select of a warp; a shuffle takes one, as 128 bytes of shared
memory do (CUDA C++ Programming Guide, "Throughput of native arithmetic instructions", 9.0)."""

Needs = dict[int, tuple[int, int]]
"""For registers that a lane is to fill, the lane and the register that have it."""


class By(Enum):
    """What carries elements from thread to thread."""

    NAMES = "other names for registers"
    SHUFFLES = "shuffles"
    SHARED = "shared memory"


@dataclass(frozen=True, slots=True)
class Round:
    """One shuffle: each lane sends one register, reads what one lane sends, and keeps it in one.

    Attributes:
        sent: the register that each lane sends.
        source: the lane from which each lane reads.
        kept: the register in which each lane keeps what it read; -1 where it read nothing new.
    """

    sent: tuple[int, ...]
    source: tuple[int, ...]
    kept: tuple[int, ...]

    @property
    def is_own(self) -> bool:
        """Whether no lane reads from another one: a shuffle is not needed."""
        return self.source == tuple(range(len(self.source)))


@dataclass(frozen=True, slots=True)
class Change:
    """A way from one layout of registers to another, with its clocks on a multiprocessor.

    Attributes:
        by: what carries the elements.
        clocks: of all a warp's instructions, on the units that they keep busy.
        rounds: where shuffles do, each of a register of 32 bits.
        packed: elements of such a register that travel together.
        swizzle: bytes of the swizzled rows, where shared memory does.
    """

    by: By
    clocks: float
    rounds: tuple[Round, ...] = ()
    packed: int = 1
    swizzle: int = 0


def change(held: Layout, wanted: Layout, size: int, memory: Layout | None = None) -> Change:
    """The cheapest way, of elements of `size` bytes; through shared memory there always is one.

    Args:
        memory: how the tensor would lie there; in rows by default.
    """
    rows = Layout.row_major(held.shape) if memory is None else memory
    shared = _through_shared(held, wanted, size, rows)
    found = rounds(held, wanted, size)
    if found is None:
        return shared
    packed, steps = found
    cost = sum(not step.is_own for step in steps) + SELECT_CLOCKS * _selects(steps)
    by = By.SHUFFLES if cost else By.NAMES
    return min(Change(by, cost, steps, packed), shared, key=lambda way: way.clocks)


def rounds(held: Layout, wanted: Layout, size: int) -> tuple[int, tuple[Round, ...]] | None:
    """The shuffles that bring each element to where it is wanted, in registers of 32 bits where
    neighbours travel together; behind the number of these.

    What is to be brought is a graph of lanes that send and lanes that want. A round takes edges no
    two of which share a lane, so that as many rounds as a lane has registers do. What stays in its
    lane goes first, if all lanes have as much of it.

    Returns:
        None where elements go to other warps, or the layouts have no digits in common.
    """
    needs = _needs(held, wanted)
    if needs is None:
        return None
    together, left = next(
        (packed, words)
        for packed in (4, 2, 1)
        if packed * size <= 4 or packed == 1
        if (words := _in_words(needs, packed)) is not None
    )
    found: list[Round] = []
    own = [[at for at, hold in left[lane].items() if hold[0] == lane] for lane in range(WARP)]
    if len({*map(len, own)}) == 1:
        found += [_round(dict(enumerate(kept)), left) for kept in zip(*own, strict=True)]
    while any(left):
        found.append(_round(_matched(left), left))
    return together, tuple(found)


def _needs(held: Layout, wanted: Layout) -> list[Needs] | None:
    """For each lane, where it finds what it wants in each register: in its own, if it is there."""
    way = conversion(wanted, held)
    if way is None or way.shape[LANES] != WARP:
        return None
    warps = [piece for piece in way.pieces if piece.dim == 0 or piece.place is Place.WARP]
    if warps not in ([], [Piece(0, way.shape[0], 1, Place.WARP, 1)]):
        return None
    found: list[Needs] = []
    for lane in range(WARP):
        needs = {}
        for register in range(way.shape[REGISTERS]):
            holds = [
                (where.get(Place.LANE, 0), where.get(Place.REGISTER, 0))
                for where in way.everywhere(0, lane, register)
            ]
            needs[register] = next((hold for hold in holds if hold[0] == lane), holds[0])
        found.append(needs)
    return found


def _in_words(needs: list[Needs], packed: int) -> list[Needs] | None:
    """The same of words of so many neighbours; None if some do not travel together."""
    for lane in needs:
        if len(lane) % packed:
            return None
        for at, (source, register) in lane.items():
            first = at // packed * packed
            if lane[first] != (source, register - at % packed) or (register - at) % packed:
                return None
    return [
        {at // packed: (s, r // packed) for at, (s, r) in lane.items() if at % packed == 0}
        for lane in needs
    ]


def _matched(left: list[Needs]) -> dict[int, int]:
    """For as many lanes as can be a register to fill, each from another lane: augmenting paths.

    A lane beyond these joins where what it wants is sent anyway.
    """
    filled: dict[int, int] = {}
    readers: dict[int, int] = {}

    def serve(lane: int, seen: set[int]) -> bool:
        for at, (source, _) in left[lane].items():
            if source not in seen:
                seen.add(source)
                if source not in readers or serve(readers[source], seen):
                    readers[source], filled[lane] = lane, at
                    return True
        return False

    for lane in range(WARP):
        serve(lane, set())
    sent = {left[lane][at] for lane, at in filled.items()}
    for lane in range(WARP):
        joined = next((at for at, hold in left[lane].items() if hold in sent), None)
        if lane not in filled and joined is not None:
            filled[lane] = joined
    return filled


def _round(filled: dict[int, int], left: list[Needs]) -> Round:
    """The shuffle that fills these registers, which are then no longer needed."""
    sent, source, kept = [0] * WARP, list(range(WARP)), [-1] * WARP
    for lane, at in filled.items():
        source[lane], register = left[lane].pop(at)
        sent[source[lane]], kept[lane] = register, at
    return Round(tuple(sent), tuple(source), tuple(kept))


def _selects(steps: tuple[Round, ...]) -> int:
    """Selects of what lanes send, where they differ, and of what they keep of several rounds."""
    sending = sum(len({*step.sent}) - 1 for step in steps)
    filling = Counter(at for step in steps for at in {*step.kept} - {-1})
    return sending + sum(count - 1 for count in filling.values())


def _through_shared(held: Layout, wanted: Layout, size: int, rows: Layout) -> Change:
    """Stores in rows of the tensor and loads from them, with the swizzle that suits both."""
    swizzle = least_swizzle(size, rows, [held, wanted])
    memory = MemoryLayout(rows, size, HARDWARE[swizzle])
    return Change(By.SHARED, clocks(held, memory) + clocks(wanted, memory), swizzle=swizzle)
