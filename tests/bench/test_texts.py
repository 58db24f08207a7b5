"""What counts as another kernel."""

from bench.texts import difference


def test_kernels_that_are_made_in_another_order_are_the_same() -> None:
    assert difference(["a\nb", "c"], ["c", "a\nb"], show=False) == ""


def test_a_changed_line_is_counted_on_both_sides() -> None:
    assert difference(["a\nb"], ["a\nd"], show=False) == "1 kernels, now 1; 2 lines differ"
