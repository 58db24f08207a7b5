"""The page about ordering shows the edges of the kernel of the page about roles."""

import re
from pathlib import Path

import pytest

from pages import orders
from warpsmith.kernel.orders import Order

PAGE = (Path(__file__).parents[2] / "docs" / "ordering.md").read_text()


def test_the_table_of_the_page_is_that_of_its_kernel() -> None:
    assert orders.written(PAGE) == PAGE


def test_the_listing_of_the_page_is_what_explain_prints() -> None:
    """But for the numbers of lines, which change with the prelude."""
    example = PAGE.partition("```python\n")[2].partition("```")[0]
    names: dict[str, object] = {}
    exec(compile(example, "page.py", "exec"), names)
    shown = PAGE.partition("```\n  edge ")[2].partition("```")[0]
    printed, wanted = (re.sub(r"line \d+", "line", str(t)) for t in (names["listed"], shown))
    assert wanted in printed
    assert wanted.count("line") == 3


def test_a_line_an_edge() -> None:
    order = Order(
        buffer="T1",
        hazard="read after write",
        first="a",
        second="b",
        carried="straight on",
        mechanism="none",
        why="one thread does both",
        statements=(),
    )
    assert (
        orders.table([order, order]).splitlines()[2:]
        == ["| T1 | read after write | a | b | straight on | none | one thread does both |"] * 2
    )


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="the page has no lines <!-- edges"):
        orders.written("nothing")
