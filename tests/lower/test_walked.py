"""Layouts as index expressions and back."""

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.layouts.test_layout import digits, shape_of
from warpsmith.ir import integers
from warpsmith.ir.scalar import Const, Symbol
from warpsmith.layouts.layout import Layout, Piece, Place
from warpsmith.lower.walked import index_of, layout_of


@settings(deadline=None)
@given(st.data())
def test_indices_say_what_their_layout_says(data: st.DataObject) -> None:
    found = data.draw(digits())
    pieces = [Piece(*d, Place.ADDRESS, data.draw(st.integers(0, 9))) for d in found]
    layout = Layout(shape_of(found), tuple(pieces))
    for at in product(*map(range, layout.shape)):
        where = index_of(layout, *map(Const, at))
        assert integers.constant(where) == layout.at(*at).get(Place.ADDRESS, 0)


def test_loops_that_lie_evenly_are_a_layout() -> None:
    row, column = (Symbol(n, low=0, extent=Const(e)) for n, e in (("row", 4), ("column", 6)))
    start = Symbol("start")
    index = integers.add(integers.mul(row, 10), column, integers.mul(start, 7))
    assert layout_of(index, [row, column]) == Layout.strided((4, 6), (10, 1))
    assert layout_of(index, [column]) == Layout.strided((6,), (1,))
    assert layout_of(start, [row]) == Layout.strided((4,), (0,))


def test_loops_that_do_not_are_none() -> None:
    row, start = Symbol("row", low=0, extent=Const(4)), Symbol("start")
    for index in (
        integers.mod(row, 3),
        integers.mul(row, start),
        integers.mul(row, row),
        integers.sub(start, row),
    ):
        assert layout_of(index, [row]) is None
