"""`SharedLayout`: a tensor in shared memory, and what a warp's access to it costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd

from warpsmith.layouts.algebra import REGISTERS, conversion
from warpsmith.layouts.layout import Layout, Place
from warpsmith.layouts.swizzle import HARDWARE, NONE, Swizzle

BANKS = 32
BANK_BYTES = 4
"""Banks of shared memory, and bytes of a word that each serves in a clock (CUDA C++ Programming
Guide, compute capability 5.0 and later)."""

WIDEST = 16
"""Bytes that a thread accesses at once, at most."""


@dataclass(frozen=True, slots=True)
class SharedLayout:
    """A tensor in memory: its layout in elements of `size` bytes, then the swizzle of its bytes."""

    layout: Layout
    size: int
    swizzle: Swizzle = NONE

    def byte(self, *coordinates: int) -> int:
        """Where an element begins."""
        return self.swizzle(self.layout.at(*coordinates).get(Place.ADDRESS, 0) * self.size)


def vector(held: Layout, memory: SharedLayout, aligned: int = WIDEST) -> int:
    """The most elements of a thread that one access moves: neighbours, of an aligned address.

    Args:
        held: over warps, lanes and registers.
        aligned: bytes that the tensor's first address is a multiple of.
    """
    way = conversion(held, memory.layout)
    if way is None:
        return 1
    most = min(aligned, WIDEST, memory.swizzle.unit or WIDEST)
    pieces = way.along(Place.ADDRESS)
    width, left = 1, max(1, most // memory.size)
    for piece in pieces:
        if piece.dim != REGISTERS or piece.stride != width or left == 1:
            break
        taken = gcd(piece.size, left)
        width, left = width * taken, left // taken
        if taken != piece.size:
            break
    while any(piece.stride % width for piece in pieces if piece.stride >= width):
        width //= 2
    return width


def accesses(held: Layout, memory: SharedLayout) -> Iterator[list[int]]:
    """The byte addresses of the first warp's lanes, for each of its accesses, as wide as can be."""
    width = vector(held, memory)
    way = conversion(held, memory.layout)
    assert way is not None, f"{held} and {memory.layout} have no digits in common"
    _, lanes, registers = way.shape
    seen: set[tuple[int, ...]] = set()
    for register in range(registers):
        first = tuple(
            way.at(0, lane, register).get(Place.ADDRESS, 0) // width * width
            for lane in range(lanes)
        )
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


def clocks(held: Layout, memory: SharedLayout) -> int:
    """Clocks in which shared memory serves all accesses of the first warp."""
    width = vector(held, memory) * memory.size
    return sum(transactions(addresses, width) for addresses in accesses(held, memory))


def least_swizzle(size: int, layout: Layout, users: Iterable[Layout]) -> int:
    """Row bytes of the hardware's swizzle that takes the fewest clocks, and of such the least.

    Args:
        size: bytes of an element.
        layout: of the tensor in shared memory.
        users: which elements each warp, lane and register writes or reads.
    """
    users = list(users)

    def total(row_bytes: int) -> int:
        memory = SharedLayout(layout, size, HARDWARE[row_bytes])
        return sum(clocks(held, memory) for held in users)

    return min(HARDWARE, key=total)
