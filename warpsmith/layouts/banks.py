"""What shared memory's banks make of a warp's accesses, and the swizzle with which they collide
least."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from warpsmith.layouts.algebra import conversion
from warpsmith.layouts.layout import Layout, Place
from warpsmith.layouts.memory import MemoryLayout, vector
from warpsmith.layouts.swizzle import HARDWARE

BANKS = 32
BANK_BYTES = 4
"""Banks of shared memory, and bytes of a word that each serves in a clock (CUDA C++ Programming
Guide, compute capability 5.0 and later)."""


def accesses(held: Layout, memory: MemoryLayout) -> Iterator[list[int]]:
    """The byte addresses of the first warp's lanes, for each of its accesses, as wide as can be."""
    width = vector(held, memory)
    way = conversion(held, memory.layout)
    assert way is not None, f"{held} and {memory.layout} have no digits in common"
    _, lanes, registers = way.shape
    # An address is a sum of what each coordinate adds.
    by_lane = [way.at(0, lane, 0).get(Place.ADDRESS, 0) for lane in range(lanes)]
    seen: set[tuple[int, ...]] = set()
    for register in range(registers):
        start = way.at(0, 0, register).get(Place.ADDRESS, 0)
        first = tuple([(start + further) // width * width for further in by_lane])
        if first not in seen:
            seen.add(first)
            yield [memory.swizzle(element * memory.size) for element in first]


def transactions(addresses: Sequence[int], width: int) -> int:
    """Clocks in which shared memory serves one access of a warp, of `width` bytes a lane.

    It serves 32 lanes at once, of 8 bytes 16 and of 16 bytes 8; each needs as many clocks as the
    busiest bank has words to give. Lanes that want the same word share it.
    """
    together = BANKS * BANK_BYTES // max(width, BANK_BYTES)
    return sum(
        _busiest(addresses[start : start + together], width)
        for start in range(0, len(addresses), together)
    )


def _busiest(addresses: Iterable[int], width: int) -> int:
    words = defaultdict(set)
    for address in addresses:
        for byte in range(address, address + width, BANK_BYTES):
            word = byte // BANK_BYTES
            words[word % BANKS].add(word)
    return max(map(len, words.values()))


def clocks(held: Layout, memory: MemoryLayout) -> int:
    """Clocks in which shared memory serves all accesses of the first warp."""
    width = vector(held, memory) * memory.size
    return sum(transactions(addresses, width) for addresses in accesses(held, memory))


def least_swizzle(size: int, layout: Layout, users: Iterable[Layout]) -> int:
    """Row bytes of the hardware's swizzle that takes the fewest clocks, and of such the least.

    None but 0 permutes rows that are longer than its own.

    Args:
        size: bytes of an element.
        layout: of the tensor in shared memory, rows and columns.
        users: which elements each warp, lane and register writes or reads.
    """
    users = list(users)
    fitting = [bytes_ for bytes_ in HARDWARE if not bytes_ or layout.shape[-1] * size <= bytes_]

    def total(row_bytes: int) -> int:
        memory = MemoryLayout(layout, size, HARDWARE[row_bytes])
        return sum(clocks(held, memory) for held in users)

    return min(fitting, key=total)
