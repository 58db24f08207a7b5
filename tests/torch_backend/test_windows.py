"""Places of windows, against lists of them."""

import pytest

from warpsmith.ir import integers
from warpsmith.ir.reads import at
from warpsmith.ir.scalar import Const, Expr
from warpsmith.ir.substitution import substitute
from warpsmith.torch_backend.windows import Adaptive, Even, Windows, adaptive


def at_place(expr: Expr, place: int) -> int:
    found = integers.constant(substitute(expr, {at(0): Const(place)}))
    assert found is not None
    return found


def holds(inside: Expr, place: int) -> bool:
    return all(at_place(bound, place) for bound in integers.conjuncts(inside))


def elements(windows: Windows) -> dict[tuple[int, int], int]:
    """The place of each element inside the image, by its window and its number there."""
    found = {}
    for number in range(windows.length):
        place, inside = windows.element(at(0), number)
        for window in range(windows.count):
            if holds(inside, window):
                found[window, number] = at_place(place, window)
    return found


def having(windows: Windows) -> dict[tuple[int, int], int]:
    """The same, asked of each pixel."""
    found = {}
    for number in range(windows.reach):
        window, element, inside = windows.having(at(0), number)
        for place in range(windows.size):
            if holds(inside, place):
                found[at_place(window, place), at_place(element, place)] = place
    return found


def evenly(size: int, most: int, stride: int, padding: int, dilation: int, up: bool) -> Even:
    """As many windows as torch has."""
    left = size + 2 * padding - (most - 1) * dilation - 1
    count = (left + (stride - 1 if up else 0)) // stride + 1
    count -= up and (count - 1) * stride >= size + padding
    return Even(size, count, most, stride, padding, dilation)


EVEN = [
    evenly(size, most, stride, padding, dilation, up)
    for size in (6, 9)
    for most in (1, 2, 3)
    for stride in (1, 2, 4)
    for padding in range(most // 2 + 1)
    for dilation in (1, 2)
    for up in (False, True)
]


@pytest.mark.parametrize("windows", [EVEN, [adaptive(n, m) for n in (5, 8) for m in range(1, 9)]])
def test_windows_and_pixels_have_the_same_elements(windows: list[Windows]) -> None:
    for each in windows:
        found = elements(each)
        assert found == having(each), each
        for window in range(each.count):
            mine = {number: place for (w, number), place in found.items() if w == window}
            assert at_place(each.elements(at(0)), window) == len(mine) or each.step > 1
            assert at_place(each.first_inside(at(0)), window) == min(mine, default=0)
            if isinstance(each, Even):
                begin = window * each.stride - each.padding
                want = range(begin, begin + each.most * each.dilation, each.dilation)
            else:
                want = range(window * each.size // each.count, max(mine.values()) + 1)
                assert want.stop == -(-(window + 1) * each.size // each.count)
            inside = {n: place for n, place in enumerate(want) if 0 <= place < each.size}
            assert mine == inside


def test_windows_of_one_length_are_even() -> None:
    assert isinstance(adaptive(12, 4), Even)
    assert isinstance(adaptive(12, 5), Adaptive)
