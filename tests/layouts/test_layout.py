"""Layouts against what they say of each element, counted one by one."""

from itertools import product
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.errors import InternalError
from warpsmith.layouts.algebra import HELD, composed, conversion, flat, inverse
from warpsmith.layouts.layout import Layout, Piece, Place

Digits = list[tuple[int, int, int]]


def every(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(product(*map(range, shape)))


def told(layout: Layout) -> list[list[dict[Place, int]]]:
    """What a layout says of every element, without places where everything is at 0."""
    return [
        sorted(
            ({k: v for k, v in where.items() if v} for where in layout.everywhere(*at)),
            key=lambda where: sorted((k.value, v) for k, v in where.items()),
        )
        for at in every(layout.shape)
    ]


@st.composite
def digits(draw: st.DrawFn, most: int = 5) -> Digits:
    """(dim, size, step) of each digit of up to three dimensions."""
    found: Digits = []
    for dim in range(draw(st.integers(1, 3))):
        step = 1
        for size in draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)):
            if len(found) < most:
                found.append((dim, size, step))
                step *= size
    return found


def shape_of(found: Digits) -> tuple[int, ...]:
    return tuple(prod(s for d, s, _ in found if d == dim) for dim in range(1 + found[-1][0]))


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Any layout: digits along any places, some of them nowhere, and a replica at times."""
    found = draw(digits())
    places = st.sampled_from(list(Place))
    pieces = [Piece(d, n, s, draw(places), draw(st.integers(0, 6))) for d, n, s in found]
    if draw(st.booleans()):
        pieces.append(
            Piece(None, draw(st.integers(1, 3)), 1, draw(places), draw(st.integers(1, 9)))
        )
    return Layout(shape_of(found), tuple(draw(st.permutations(pieces))))


@st.composite
def packed(draw: st.DrawFn, found: Digits) -> Layout:
    """Digits dealt out to warps, lanes and registers, which they count through."""
    strides = dict.fromkeys(HELD, 1)
    pieces = []
    for dim, size, step in draw(st.permutations(found)):
        place = draw(st.sampled_from(HELD))
        pieces.append(Piece(dim, size, step, place, strides[place]))
        strides[place] *= size
    return Layout(shape_of(found), tuple(pieces))


@settings(deadline=None)
@given(layouts(), layouts())
def test_equal_is_what_says_the_same(one: Layout, other: Layout) -> None:
    same = one.shape == other.shape and told(one) == told(other)
    assert (one == other) is same
    assert one == Layout(one.shape, one.pieces)


@settings(deadline=None)
@given(layouts(), st.integers(2, 4))
def test_digits_taken_apart_are_the_same_layout(layout: Layout, parts: int) -> None:
    apart = []
    for p in layout.pieces:
        inner = parts if p.size % parts == 0 else 1
        outer = Piece(p.dim, p.size // inner, p.step * inner, p.place, p.stride * inner)
        apart += [outer, Piece(p.dim, inner, p.step, p.place, p.stride)]
    assert Layout(layout.shape, tuple(apart)) == layout


@settings(deadline=None)
@given(layouts())
def test_extents_and_gaps(layout: Layout) -> None:
    for place in Place:
        seen = [w.get(place, 0) for at in every(layout.shape) for w in layout.everywhere(*at)]
        assert layout.extent(place) == max(seen) + 1
        if layout.is_packed(place):
            assert set(seen) == set(range(layout.extent(place)))


@settings(deadline=None)
@given(layouts(), st.integers(0, 2), st.integers(1, 12), st.integers(1, 4))
def test_the_stride_of_a_digit(layout: Layout, dim: int, step: int, size: int) -> None:
    found = layout.stride(dim, step, size)
    if found is None or dim >= len(layout.shape):
        return
    for at in every(layout.shape):
        digit = at[dim] // step % size
        below = tuple(c - step * digit if d == dim else c for d, c in enumerate(at))
        moved = sum(layout.at(*at).values()) - sum(layout.at(*below).values())
        assert moved == found * digit


@settings(deadline=None)
@given(st.data())
def test_the_inverse_finds_each_element(data: st.DataObject) -> None:
    layout = data.draw(packed(data.draw(digits())))
    back = inverse(layout)
    for number, at in enumerate(every(layout.shape)):
        where = layout.at(*at)
        assert back.at(*(where.get(p, 0) for p in HELD)).get(Place.ELEMENT, 0) == number
    assert flat(layout).at(prod(layout.shape) - 1) == layout.at(*(n - 1 for n in layout.shape))


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_conversions_lead_to_the_same_element(data: st.DataObject) -> None:
    """Over the same digits there always is one; over any, it is right where there is one."""
    found = data.draw(digits())
    held, wanted = data.draw(packed(found)), data.draw(packed(found))
    way = conversion(held, wanted)
    assert way is not None
    for at in every(held.shape):
        start, end = held.at(*at), wanted.at(*at)
        reached = way.at(*(start.get(p, 0) for p in HELD))
        assert {p: reached.get(p, 0) for p in HELD} == {p: end.get(p, 0) for p in HELD}


@settings(deadline=None, max_examples=150)
@given(layouts(), st.data())
def test_composition_is_one_after_the_other(outer: Layout, data: st.DataObject) -> None:
    shape = (data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4)))
    strides = (data.draw(st.integers(0, 8)), data.draw(st.integers(0, 8)))
    inner = Layout.strided(shape, strides, Place.ELEMENT)
    both = composed(outer, inner)
    if both is None:
        return
    line = flat(outer)
    for at in every(shape):
        element = inner.at(*at).get(Place.ELEMENT, 0)
        assert sorted(map(str, told_at(both, at))) == sorted(map(str, told_at(line, (element,))))


def told_at(layout: Layout, at: tuple[int, ...]) -> list[list[tuple[str, int]]]:
    return [sorted((p.value, v) for p, v in where.items() if v) for where in layout.everywhere(*at)]


def test_sizes_that_do_not_divide_have_no_composition() -> None:
    six = Layout.strided((2, 3), (10, 1))
    assert composed(six, Layout.strided((3,), (2,), Place.ELEMENT)) is None
    assert composed(six, Layout.strided((3,), (1,), Place.ELEMENT)) == Layout.strided((3,), (1,))


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ((Piece(0, 3, 1, Place.LANE, 1),), "has 6 indices"),
        ((Piece(0, 3, 1, Place.LANE, 1), Piece(0, 2, 2, Place.LANE, 4)), "has the digits"),
        ((Piece(0, 6, 1, Place.LANE, -1),), "has the digits"),
        ((Piece(0, 6, 1, Place.LANE, 1), Piece(1, 2, 1, Place.LANE, 1)), "beyond"),
        (
            (
                Piece(0, 6, 1, Place.LANE, 1),
                *(Piece(None, 2, 1, Place.WARP, 1), Piece(None, 2, 1, Place.WARP, 1)),
            ),
            "overlap",
        ),
    ],
)
def test_pieces_that_are_no_layout(pieces: tuple[Piece, ...], words: str) -> None:
    with pytest.raises(InternalError, match=words):
        Layout((6,), pieces)


def test_what_has_no_inverse() -> None:
    with pytest.raises(InternalError, match="no inverse"):
        inverse(Layout.strided((2, 3), (4, 1)), (Place.ADDRESS,))
    with pytest.raises(InternalError, match="no inverse"):
        inverse(Layout.strided((2, 3), (3, 1)), HELD)
