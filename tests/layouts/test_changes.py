"""Changes of layout in registers, run lane by lane."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.layouts.test_layout import every
from warpsmith.layouts.banks import clocks
from warpsmith.layouts.changes import SELECT_CLOCKS, By, Round, change, rounds
from warpsmith.layouts.fragments import left, sums
from warpsmith.layouts.layout import Layout, Piece, Place
from warpsmith.layouts.memory import MemoryLayout
from warpsmith.layouts.swizzle import HARDWARE

LANE, REGISTER = Place.LANE, Place.REGISTER
Registers = dict[tuple[int, int], tuple[int, ...]]


def filled(layout: Layout) -> Registers:
    """The element in each (lane, register), its replicas too."""
    return {
        (where.get(LANE, 0), where.get(REGISTER, 0)): at
        for at in every(layout.shape)
        for where in layout.everywhere(*at)
        if not where.get(Place.WARP, 0)
    }


def run(steps: tuple[Round, ...], registers: Registers, packed: int) -> Registers:
    """What the lanes have at the end, each register of 32 bits `packed` elements."""
    found: Registers = {}
    for step in steps:
        for lane in range(32):
            if step.kept[lane] < 0:
                continue
            source = step.source[lane]
            for i in range(packed):
                word = packed * step.sent[source] + i
                found[lane, packed * step.kept[lane] + i] = registers[source, word]
    return found


def check(held: Layout, wanted: Layout, size: int) -> int:
    """Every element arrives; the number of rounds."""
    found = rounds(held, wanted, size)
    assert found is not None
    packed, steps = found
    assert packed == 1 or packed * size <= 4
    assert run(steps, filled(held), packed) == filled(wanted)
    return len(steps)


@st.composite
def warp(draw: st.DrawFn, bits: int) -> Layout:
    """Bits of a row, five of them dealt out to lanes."""
    order = draw(st.permutations(range(bits)))
    pieces = [
        Piece(0, 2, 1 << bit, LANE, 1 << place)
        if place < 5
        else Piece(0, 2, 1 << bit, REGISTER, 1 << place - 5)
        for place, bit in enumerate(order)
    ]
    return Layout((1 << bits,), tuple(pieces))


@settings(deadline=None, max_examples=80)
@given(st.data(), st.integers(5, 8), st.sampled_from((1, 2, 4, 8)))
def test_every_element_arrives_in_as_few_rounds_as_lanes_have_registers(
    data: st.DataObject, bits: int, size: int
) -> None:
    held, wanted = data.draw(warp(bits)), data.draw(warp(bits))
    assert check(held, wanted, size) <= held.extent(REGISTER)


def test_sizes_need_not_be_powers_of_two() -> None:
    held = Layout((32, 6), (Piece(0, 32, 1, LANE, 1), Piece(1, 6, 1, REGISTER, 1)))
    pieces = (Piece(0, 2, 1, REGISTER, 3), Piece(0, 16, 2, LANE, 1))
    wanted = Layout((32, 6), (*pieces, Piece(1, 3, 1, REGISTER, 1), Piece(1, 2, 3, LANE, 16)))
    assert check(held, wanted, 4) == 6


def test_sums_become_operand_a_by_other_names() -> None:
    found = change(sums(16, 16), left(16, 16, 2), 2)
    assert (found.by, found.clocks) == (By.NAMES, 0)


def test_a_digit_of_lanes_for_one_of_registers_takes_two_shuffles() -> None:
    """Half of the lanes send one register, half the other one, and so they keep them."""
    held = Layout((2, 32), (Piece(0, 2, 1, REGISTER, 1), Piece(1, 32, 1, LANE, 1)))
    columns = (Piece(1, 16, 1, LANE, 1), Piece(1, 2, 16, REGISTER, 1))
    found = change(held, Layout((2, 32), (Piece(0, 2, 1, LANE, 16), *columns)), 4)
    assert (found.by, len(found.rounds)) == (By.SHUFFLES, 2)
    assert [step.is_own for step in found.rounds] == [True, False]
    assert found.clocks == 1 + 2 * SELECT_CLOCKS + 2 * SELECT_CLOCKS


def test_sums_become_operand_a_of_8_bits_through_shared_memory() -> None:
    """Four neighbours of a row lie in two lanes, two by two, and are wanted in one."""
    held, wanted = sums(16, 32), left(16, 32, 1)
    assert check(held, wanted, 1) == 8
    found = change(held, wanted, 1)
    assert found.by is By.SHARED
    memory = MemoryLayout(Layout.row_major((16, 32)), 1, HARDWARE[found.swizzle])
    assert found.clocks == clocks(held, memory) + clocks(wanted, memory) < 16


def test_a_maximum_that_four_lanes_share_is_read_from_one() -> None:
    shared = Layout((8,), (Piece(0, 8, 1, LANE, 4), Piece(None, 4, 1, LANE, 1)))
    other = Layout((8,), (Piece(0, 8, 1, LANE, 1), Piece(None, 4, 1, LANE, 8)))
    assert check(other, shared, 4) == 1
    assert check(shared, other, 4) == 1
    assert change(shared, shared, 4).by is By.NAMES
    one = Layout((1, 1), (Piece(None, 32, 1, LANE, 1),))
    assert change(one, one, 4).clocks == 0


@pytest.mark.parametrize("place", [Place.WARP, LANE])
def test_what_leaves_its_warp_goes_through_shared_memory(place: Place) -> None:
    held = Layout((2, 32), (Piece(0, 2, 1, Place.WARP, 1), Piece(1, 32, 1, LANE, 1)))
    wanted = Layout((2, 32), (Piece(0, 2, 1, REGISTER, 1), Piece(1, 32, 1, LANE, 1)))
    first, second = (held, wanted) if place is LANE else (wanted, held)
    assert rounds(first, second, 4) is None
    assert change(first, second, 4).by is By.SHARED
    assert rounds(held, held, 4) is not None
