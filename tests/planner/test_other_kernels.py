"""What keeps two kernels of a plan from being one."""

import random

import pytest

from warpsmith.planner.other_kernels import Names, between

CHAIN: list[Names] = [("x", "a"), ("a", "b"), ("b", "c"), ("ac", "d")]
"""Each kernel reads what the one before it writes, and the last one what the first writes, too."""


@pytest.mark.parametrize(
    ("writer", "reader", "met"), [(0, 1, None), (0, 2, 1), (0, 3, 2), (1, 3, 2), (2, 3, None)]
)
def test_a_third_kernel_stands_between(writer: int, reader: int, met: int | None) -> None:
    assert between(CHAIN, writer, reader) == met


def test_the_order_of_kernels_does_not_matter() -> None:
    for seed in range(8):
        places = random.Random(seed).sample(range(4), 4)
        kernels = [CHAIN[place] for place in places]
        found = between(kernels, places.index(0), places.index(3))
        assert found == places.index(2)
        assert between(kernels, places.index(2), places.index(3)) is None


def test_what_others_read_beside_the_reader_does_not_matter() -> None:
    assert between([("x", "a"), ("a", "b"), ("a", "c"), ("b", "e")], 0, 2) is None
