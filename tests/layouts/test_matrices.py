"""What `ldmatrix` and `stmatrix` move, against the manual's words, element by element."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.layouts.algebra import conversion
from warpsmith.layouts.banks import least_swizzle
from warpsmith.layouts.fragments import left, right, sums
from warpsmith.layouts.layout import Layout, Piece, Place
from warpsmith.layouts.matrices import Matrices, matrices, whole_rows


def moved(found: Matrices, address: Callable[[int], int]) -> dict[tuple[int, int], int]:
    """Which address each lane and element of 16 bits gets, as the PTX manual says it.

    Lane 8 i + r gives the address of row r of matrix i. Lane l gets elements 2 (l % 4) and the
    next of row l / 4; transposed, element l / 4 of rows 2 (l % 4) and the next.
    """
    got = {}
    for lane in range(32):
        for register in range(2 * found.count):
            matrix, half = divmod(register, 2)
            row, column = lane // 4, 2 * (lane % 4) + half
            if found.transposed:
                row, column = column, row
            got[lane, register] = address(8 * matrix + row) + column
    return got


def row_addresses(found: Matrices, way: Layout) -> Callable[[int], int]:
    def address(lane: int) -> int:
        first = found.lane.at(lane).get(Place.ELEMENT, 0)
        register = found.register.at(lane).get(Place.ELEMENT, 0)
        return way.at(0, first, register).get(Place.ADDRESS, 0)

    return address


def check(found: Matrices, way: Layout) -> None:
    """One instruction moves exactly what the layouts say, from rows of 16 bytes."""
    address = row_addresses(found, way)
    got = moved(found, address)
    for (lane, register), where in got.items():
        assert where == way.at(0, lane, register).get(Place.ADDRESS, 0)
    assert all(address(lane) % 8 == 0 for lane in range(32))


@pytest.mark.parametrize(
    ("held", "memory", "found"),
    [
        (left(16, 16, 2), Layout.row_major((16, 16)), Matrices(4, 2)),
        (right(8, 16, 2), Layout.row_major((8, 16)), Matrices(2, 2)),
        (right(8, 8, 2), Layout.row_major((8, 8)), Matrices(1, 2)),
        (right(8, 16, 2), Layout.strided((8, 16), (1, 8)), Matrices(2, 2, True)),
        (left(16, 16, 2), Layout.strided((16, 16), (1, 72)), Matrices(4, 2, True)),
        (sums(16, 24, 4), Layout.strided((64, 24), (40, 1)), Matrices(2, 2)),
        (sums(16, 64, 4), Layout.row_major((64, 64)), Matrices(4, 2)),
        (left(16, 32, 1), Layout.row_major((16, 32)), Matrices(4, 4)),
        (left(16, 8, 4), Layout.row_major((16, 8)), Matrices(4, 1)),
    ],
)
def test_fragments_that_matrices_move(held: Layout, memory: Layout, found: Matrices) -> None:
    way = conversion(held, memory)
    assert way is not None
    size = 4 // found.each
    assert matrices(way, size) == found
    if size == 2:
        check(found, way)


@pytest.mark.parametrize(
    ("held", "memory", "size"),
    [
        (sums(16, 16), Layout.strided((16, 16), (20, 1)), 2),
        (sums(16, 16), Layout.strided((16, 16), (1, 16)), 4),
        (sums(16, 16), Layout.row_major((16, 16)), 4),
        (left(16, 16, 2), Layout.strided((16, 16), (32, 2)), 2),
        (left(8, 4, 8), Layout.row_major((8, 4)), 8),
        (Layout.strided((8, 8), (8, 1), Place.REGISTER), Layout.row_major((8, 8)), 2),
    ],
    ids=["rows off 16 bytes", "turned floats", "pairs of floats", "gaps", "doubles", "one lane"],
)
def test_what_no_matrix_moves(held: Layout, memory: Layout, size: int) -> None:
    way = conversion(held, memory)
    assert way is not None
    assert matrices(way, size) is None


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_whatever_is_found_is_right(data: st.DataObject) -> None:
    """A fragment of 8 x 16 with some digits exchanged, in rows or columns of memory."""
    order = [(1, 2, 2), (1, 2, 4), (0, 2, 1), (0, 2, 2), (0, 2, 4), (1, 2, 1), (1, 2, 8)]
    for _ in range(data.draw(st.integers(0, 3))):
        one, other = (data.draw(st.integers(0, 6)) for _ in range(2))
        order[one], order[other] = order[other], order[one]
    pieces = [
        Piece(*d, Place.LANE, 1 << i) if i < 5 else Piece(*d, Place.REGISTER, 1 << i - 5)
        for i, d in enumerate(order)
    ]
    strides = data.draw(st.sampled_from([(16, 1), (1, 8), (24, 1), (1, 24)]))
    way = conversion(Layout((8, 16), tuple(pieces)), Layout.strided((8, 16), strides))
    assert way is not None
    found = matrices(way, 2)
    if found is not None:
        check(found, way)
    possible = [Matrices(count, 2, t) for count in (2, 1) for t in (False, True)]
    assert (found is None) == (not any(moves(one, way) for one in possible))


def moves(found: Matrices, way: Layout) -> bool:
    try:
        check(found, way)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("columns", [16, 32, 64])
def test_staged_rows_take_the_swizzle_of_their_length(columns: int) -> None:
    tile = Layout.row_major((8, columns))
    assert least_swizzle(2, tile, [whole_rows(columns, 2)]) == 2 * columns
    assert (
        least_swizzle(2, Layout.strided((8, columns), (columns + 8, 1)), [whole_rows(columns, 2)])
        == 0
    )
