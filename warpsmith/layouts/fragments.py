"""Which elements of a matrix the threads of a warp hold for tensor cores (PTX ISA, "Matrix
fragments for mma.m16n8k16" and the like, "Register fragments for wgmma.mma_async").

Of all instructions the lanes form eight groups of four. A group has a row of A and of the sums, and
a column of B; its lanes go along the other dimension, each with as many neighbours as 32 bits hold
(of sums, two). `wgmma` gives each of four warps 16 of its 64 rows.
"""

from __future__ import annotations

from warpsmith.layouts.layout import Layout, Piece, Place

GROUPS, QUAD = 8, 4
"""Groups of a warp, and lanes of a group."""


def sums(rows: int, columns: int, warps: int = 1) -> Layout:
    """The accumulators: `rows` of a warp, 8 or 16, by any multiple of 8 columns."""
    upper = rows // GROUPS
    pieces = (
        Piece(0, GROUPS, 1, Place.LANE, QUAD),
        Piece(0, upper, GROUPS, Place.REGISTER, 2),
        Piece(0, warps, rows, Place.WARP, 1),
        *(Piece(1, 2, 1, Place.REGISTER, 1), Piece(1, QUAD, 2, Place.LANE, 1)),
        Piece(1, columns // GROUPS, GROUPS, Place.REGISTER, 2 * upper),
    )
    return Layout((warps * rows, columns), pieces)


def left(rows: int, depth: int, size: int, warps: int = 1) -> Layout:
    """Operand A, rows by k, of elements of `size` bytes."""
    upper, packed = rows // GROUPS, max(1, 4 // size)
    pieces = (
        Piece(0, GROUPS, 1, Place.LANE, QUAD),
        Piece(0, upper, GROUPS, Place.REGISTER, packed),
        Piece(0, warps, rows, Place.WARP, 1),
        *_along_k(depth, packed, upper),
    )
    return Layout((warps * rows, depth), pieces)


def right(columns: int, depth: int, size: int) -> Layout:
    """Operand B of one warp, columns by k, of elements of `size` bytes."""
    packed = max(1, 4 // size)
    pieces = (
        Piece(0, GROUPS, 1, Place.LANE, QUAD),
        Piece(0, columns // GROUPS, GROUPS, Place.REGISTER, depth // QUAD),
        *_along_k(depth, packed, 1),
    )
    return Layout((columns, depth), pieces)


def _along_k(depth: int, packed: int, upper: int) -> tuple[Piece, ...]:
    return (
        Piece(1, packed, 1, Place.REGISTER, 1),
        Piece(1, QUAD, packed, Place.LANE, 1),
        Piece(1, depth // (QUAD * packed), QUAD * packed, Place.REGISTER, packed * upper),
    )
