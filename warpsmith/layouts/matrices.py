"""How `ldmatrix` and `stmatrix` move what a warp holds, from two layouts.

Both move 8 x 8 matrices of 16-bit elements, one, two or four at once. A row of 16 bytes lies in
memory as it is; lane `8 * matrix + row` gives its address, and lane `4 * row + part` holds its
elements `2 * part` and the next. Transposed, the lane holds those of two rows instead (PTX ISA,
"Warp-level matrix load instruction: ldmatrix").
"""

from __future__ import annotations

from math import prod

from warpsmith.layouts.algebra import LANES, REGISTERS
from warpsmith.layouts.layout import Layout, Piece, Place
from warpsmith.layouts.swizzle import CHUNK
from warpsmith.values import dataclass

PARTS = 4
ROWS = 8
"""Lanes that hold a row together, and rows of a matrix."""

LOOPS = ((2, 2, 2), (1, 2, 2))
"""Loops over what a lane stores of a fragment at once, by four matrices, or by two: of these two
side by side, or one; two below each other; and two elements of a row."""

WORD = 4
"""Bytes of a register of a lane, which is its part of a matrix."""


@dataclass(frozen=True, slots=True)
class Matrices:
    """The matrices that one instruction moves between registers and memory.

    Attributes:
        count: 1, 2 or 4: matrix i is the lane's elements `i * each` to `i * each + each - 1`.
        each: elements of a lane that belong to one matrix.
        transposed: whether elements that lie beside each other in memory are different lanes'.
    """

    count: int
    each: int
    transposed: bool = False

    @property
    def lane(self) -> Layout:
        """Which lane holds the first element of the row whose address a lane gives."""
        if self.transposed:
            return _of_rows((self.each, 0), (ROWS // self.each, 1))
        return _of_rows((ROWS, PARTS))

    @property
    def register(self) -> Layout:
        """Which element of that lane it is."""
        matrix = (self.count, self.each), (PARTS // self.count, 0)
        if self.transposed:
            return _of_rows((self.each, 1), (ROWS // self.each, 0), *matrix)
        return _of_rows((ROWS, 0), *matrix)


def _of_rows(*digits: tuple[int, int]) -> Layout:
    """Elements by the digits (size, stride) of a lane's number, the nearest first."""
    pieces, step = [], 1
    for size, stride in (*digits, (ROWS * PARTS // prod(size for size, _ in digits), 0)):
        pieces.append(Piece(0, size, step, Place.ELEMENT, stride))
        step *= size
    return Layout((step,), tuple(pieces))


def whole_rows(columns: int, size: int) -> Layout:
    """Eight rows as matrices move them: a lane has 16 bytes of its row, then those of the next."""
    along = CHUNK // size
    return Layout(
        (ROWS, columns),
        (
            Piece(0, ROWS, 1, Place.LANE, 1),
            Piece(1, along, 1, Place.REGISTER, 1),
            Piece(1, columns // along, along, Place.REGISTER, along),
        ),
    )


def matrices(way: Layout, size: int) -> Matrices | None:
    """The instruction that moves all that a lane holds, as often as needed; None if none does.

    Args:
        way: from each warp, lane and register to an address, before the swizzle.
        size: bytes of an element.
    """
    _, lanes, registers = way.shape
    each, row = WORD // size, CHUNK // size
    if lanes != ROWS * PARTS or size > WORD or registers % each:
        return None
    pieces = way.along(Place.ADDRESS)
    inside = [piece for piece in pieces if piece.stride < row]
    walked = [(piece.dim, piece.step, piece.stride) for piece in inside]
    turned = size == 2 and walked == [(LANES, PARTS, 1)]
    straight = walked == [(REGISTERS, 1, 1), (LANES, 1, each)][each == 1 :]
    straight = straight and inside[-1].size % PARTS == 0
    straight = straight and all(piece.size == each for piece in inside[:-1])
    if not (straight or turned) or any(p.stride % row for p in pieces[len(inside) :]):
        return None
    count = next(count for count in (4, 2, 1) if registers // each % count == 0)
    return Matrices(count, each, turned)
