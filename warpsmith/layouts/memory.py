"""`MemoryLayout`: a tensor in memory, and how many of its elements a thread accesses at once."""

from __future__ import annotations

from math import gcd

from warpsmith.layouts.algebra import REGISTERS, conversion
from warpsmith.layouts.layout import Layout, Place
from warpsmith.layouts.swizzle import NONE, Swizzle
from warpsmith.values import dataclass

WIDEST = 16
"""Bytes that a thread accesses at once, at most."""


@dataclass(frozen=True, slots=True)
class MemoryLayout:
    """A tensor in memory: its layout in elements of `size` bytes, then the swizzle of its bytes."""

    layout: Layout
    size: int
    swizzle: Swizzle = NONE

    def byte(self, *coordinates: int) -> int:
        """Where an element begins."""
        return self.swizzle(self.layout.at(*coordinates).get(Place.ADDRESS, 0) * self.size)


def vector(held: Layout, memory: MemoryLayout, aligned: int = WIDEST) -> int:
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
