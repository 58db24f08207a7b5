"""Shared memory by layouts: swizzles, widths, banks and descriptors, against counting bytes."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.layouts.test_layout import Digits, digits, packed, shape_of
from tests.sim.support import layouts as bytewise
from warpsmith.errors import InternalError
from warpsmith.layouts.banks import accesses, clocks, least_swizzle, transactions
from warpsmith.layouts.descriptors import Descriptor, descriptor
from warpsmith.layouts.layout import Layout, Piece, Place
from warpsmith.layouts.memory import MemoryLayout, vector
from warpsmith.layouts.swizzle import HARDWARE, NONE, Swizzle

LANE, REGISTER = Place.LANE, Place.REGISTER


@pytest.mark.parametrize("row", HARDWARE)
def test_swizzles_are_those_of_the_simulator(row: int) -> None:
    swizzle = HARDWARE[row]
    places = [swizzle(address) for address in range(4096)]
    assert places == [bytewise.swizzled(address, row) for address in range(4096)]
    assert [swizzle(place) for place in places] == list(range(4096))
    moved = [place - address for address, place in enumerate(places)]
    period = next(p for p in (1, 256, 512, 1024) if moved[p:] == moved[:-p])
    assert swizzle.period == period
    for size in (1, 2, 4, 8, 16) if row else ():
        line, lines, unit = swizzle.terms(size)
        for index in range(4096 // size):
            assert swizzle(index * size) == (index ^ index // line % lines * unit) * size


def test_swizzles_that_are_refused() -> None:
    with pytest.raises(InternalError, match="changes bits that change others"):
        Swizzle(((4, 7), (7, 9)))
    for odd in (Swizzle(((4, 7), (5, 9))), Swizzle(((1, 7),))):
        with pytest.raises(InternalError, match="no one exclusive-or"):
            odd.terms(4)


@st.composite
def memories(draw: st.DrawFn, found: Digits) -> MemoryLayout:
    """The same digits in any order in memory, at times with gaps."""
    stride, pieces = 1, []
    for dim, size, step in draw(st.permutations(found)):
        pieces.append(Piece(dim, size, step, Place.ADDRESS, stride))
        stride *= size * draw(st.sampled_from((1, 1, 1, 2, 3)))
    swizzle = HARDWARE[draw(st.sampled_from(tuple(HARDWARE)))]
    return MemoryLayout(
        Layout(shape_of(found), tuple(pieces)), draw(st.sampled_from((1, 2, 4))), swizzle
    )


def owners(held: Layout, memory: MemoryLayout) -> dict[int, tuple[int, int]]:
    """Which thread holds the element of each byte address."""
    found = {}
    for at in product(*map(range, held.shape)):
        where = held.at(*at)
        found[memory.byte(*at)] = (where.get(Place.WARP, 0), where.get(LANE, 0))
    return found


def is_wide(held: Layout, memory: MemoryLayout, width: int) -> bool:
    """Whether each element lies in an aligned piece of `width` that one thread holds, in order."""
    holders = owners(held, memory)
    plain = MemoryLayout(memory.layout, memory.size)
    for at in product(*map(range, held.shape)):
        first = plain.byte(*at) // memory.size // width * width
        piece = [memory.swizzle((first + i) * memory.size) for i in range(width)]
        if piece != [piece[0] + i * memory.size for i in range(width)]:
            return False
        if len({holders.get(byte) for byte in piece}) > 1:
            return False
    return True


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_vectors_are_the_widest_that_one_thread_holds(data: st.DataObject) -> None:
    found = [(d, n if n != 3 else 2, s) for d, n, s in data.draw(digits())]
    steps: dict[int, int] = {}
    power: Digits = []
    for dim, size, _ in found:
        power.append((dim, size, steps.get(dim, 1)))
        steps[dim] = steps.get(dim, 1) * size
    held, memory = data.draw(packed(power)), data.draw(memories(power))
    most = 16 // memory.size
    widest = max(w for w in (1, 2, 4, 8, 16) if w <= most and is_wide(held, memory, w))
    assert vector(held, memory) == widest


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_vectors_of_any_sizes_are_right(data: st.DataObject) -> None:
    found = data.draw(digits())
    held, memory = data.draw(packed(found)), data.draw(memories(found))
    assert is_wide(held, memory, vector(held, memory))
    assert vector(held, memory, aligned=memory.size) == 1


def row_reader(lanes: int, width: int, rows: int) -> Layout:
    """A warp that reads `rows` rows, each lane `width` neighbours."""
    along = lanes // rows
    pieces = (
        Piece(0, rows, 1, LANE, along),
        *(Piece(1, width, 1, REGISTER, 1), Piece(1, along, width, LANE, 1)),
    )
    return Layout((rows, along * width), pieces)


@pytest.mark.parametrize(("width", "least"), [(4, 1), (8, 2), (16, 4)])
def test_a_warp_takes_128_bytes_a_clock(width: int, least: int) -> None:
    assert transactions([lane * width for lane in range(32)], width) == least
    assert transactions([0] * 32, width) == least
    assert transactions([lane * 128 for lane in range(32)], width) == 32
    assert transactions([lane * 256 for lane in range(32)], 2) == 32


def test_columns_of_a_tile_meet_one_bank_until_they_are_padded() -> None:
    column = Layout.strided((32, 1), (1, 0), LANE)
    assert clocks(column, MemoryLayout(Layout.strided((32, 1), (32, 1)), 4)) == 32
    assert clocks(column, MemoryLayout(Layout.strided((32, 1), (33, 1)), 4)) == 1
    rows = row_reader(32, 8, 8)
    assert len([*accesses(rows, MemoryLayout(Layout.row_major((8, 32)), 2))]) == 1


@pytest.mark.parametrize("columns", [16, 32, 64])
def test_the_least_swizzle_without_conflicts(columns: int) -> None:
    """Of 8 rows a chunk each, as matrices are stored: rows of so many 16-bit columns."""
    pieces = (Piece(0, 8, 1, LANE, 1), Piece(1, 8, 1, REGISTER, 1))
    users = [
        Layout((8, columns), (*pieces, Piece(1, columns // 8, 8, Place.WARP, 1))),
    ]
    tile = Layout.row_major((8, columns))
    row = least_swizzle(2, tile, users)
    assert row == 2 * columns
    assert clocks(users[0], MemoryLayout(tile, 2, HARDWARE[row])) == 1
    assert clocks(users[0], MemoryLayout(tile, 2)) == columns // 8


def test_no_swizzle_where_none_is_better() -> None:
    assert least_swizzle(4, Layout.row_major((8, 32)), [row_reader(32, 1, 1)][:0]) == 0
    assert least_swizzle(2, Layout.row_major((8, 32)), [row_reader(32, 8, 8)]) == 0


def operand(row: int, lines: int, depth: int, size: int, turned: bool, gap: int) -> MemoryLayout:
    """A tile with holes, as `tests/sim/support/layouts.py` writes it."""
    width = (row or 16) // size
    fast, slow = (lines, depth) if turned else (depth, lines)
    inner = min(width, fast)
    eights = 8 * width + gap * 16 // size
    across = eights * (slow // 8)
    far = (eights, across) if row or turned else (eights * (fast // inner), eights)
    dims = (0, 1) if turned else (1, 0)
    pieces = (
        *(Piece(dims[0], inner, 1, Place.ADDRESS, 1), Piece(dims[1], 8, 1, Place.ADDRESS, width)),
        Piece(dims[1], slow // 8, 8, Place.ADDRESS, far[0]),
        Piece(dims[0], fast // inner, inner, Place.ADDRESS, far[1]),
    )
    return MemoryLayout(Layout((lines, depth), pieces), size, HARDWARE[row])


@pytest.mark.parametrize("row", HARDWARE)
@pytest.mark.parametrize(("size", "turned"), [(2, False), (2, True), (4, False), (1, False)])
@pytest.mark.parametrize("gap", [0, 8])
def test_descriptors_lead_to_every_byte(row: int, size: int, turned: bool, gap: int) -> None:
    """By the table of the PTX manual, as the simulator's tests write it."""
    lines, depth = 64, 32 // size
    tile = operand(row, lines, depth, size, turned, gap)
    found = descriptor(tile)
    assert found is not None
    assert (found.swizzle, found.transposed) == (row, turned)
    span, offsets = row or 16, (found.leading, found.stride)
    for line, k in np.ndindex(lines, depth):
        if turned:
            offset = bytewise.mn_major(line, k, span, *offsets)
        else:
            offset = bytewise.k_major(line, k * size, span, *offsets)
        assert bytewise.swizzled(offset, span) == tile.byte(line, k)


def test_the_bits_of_a_descriptor() -> None:
    found = descriptor(MemoryLayout(Layout.row_major((64, 64)), 2, HARDWARE[128]))
    assert found == Descriptor(128, 0, 1024)
    bits = found.bits(0x2000)
    assert (bits & 0x3FFF, bits >> 16 & 0x3FFF, bits >> 32 & 0x3FFF, bits >> 62) == (512, 1, 64, 1)


@pytest.mark.parametrize(
    "tile",
    [
        MemoryLayout(Layout.row_major((64, 128)), 2, HARDWARE[128]),
        MemoryLayout(Layout.row_major((64, 64)), 2, HARDWARE[64]),
        MemoryLayout(Layout.row_major((60, 64)), 2, HARDWARE[128]),
        MemoryLayout(Layout.strided((64, 16), (72, 1)), 2, NONE),
        MemoryLayout(Layout.strided((64, 8), (1, 64)), 4, HARDWARE[128]),
        MemoryLayout(Layout.row_major((64, 64)), 2, Swizzle(((4, 8),))),
        MemoryLayout(Layout.row_major((64, 64), LANE), 2, HARDWARE[128]),
    ],
    ids=["a row is longer", "rows are too long", "lines", "pitch", "32 bits", "odd", "lanes"],
)
def test_what_no_descriptor_describes(tile: MemoryLayout) -> None:
    assert descriptor(tile) is None
