"""What is in use at the same time has no byte in common, and what is not may have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.layouts.lifetimes import Life, packed


@st.composite
def lives(draw: st.DrawFn) -> list[Life]:
    span = st.tuples(st.integers(0, 5000), st.integers(0, 9), st.integers(0, 4))
    spans = draw(st.lists(st.tuples(span, st.sampled_from([1, 16, 256]))))
    return [
        Life(f"T{n}", size, a, a + more, step) for n, ((size, a, more), step) in enumerate(spans)
    ]


@given(lives())
def test_nothing_in_use_together_has_a_byte_in_common(asked: list[Life]) -> None:
    where = packed(asked)
    assert list(where) == [life.name for life in asked]
    for life in asked:
        assert where[life.name] % life.alignment == 0
        for other in asked:
            together = life.first <= other.last and other.first <= life.last
            if other is not life and together and life.size and other.size:
                ends = [where[x.name] + x.size for x in (life, other)]
                assert ends[0] <= where[other.name] or ends[1] <= where[life.name]


def test_each_lies_as_low_as_those_before_it_let() -> None:
    first, gap, above = Life("a", 100, 0, 1, 16), Life("b", 64, 0, 0, 16), Life("c", 300, 1, 2, 16)
    small = Life("d", 16, 2, 3, 16)
    assert packed([first, gap, above, small]) == {"a": 0, "b": 112, "c": 112, "d": 0}


@pytest.mark.parametrize("size", [0, 1])
def test_what_has_no_bytes_has_a_place(size: int) -> None:
    assert packed([Life("T0", size, 0, 1, 256)]) == {"T0": 0}
