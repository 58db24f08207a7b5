"""Orders in which tiles follow each other: each tile once, and none that is not there."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ir.test_derivation import derivation_of, tensor_of
from warpsmith import TileOrder
from warpsmith.errors import ScheduleError
from warpsmith.ir.scalar import evaluate
from warpsmith.schedule.tile_order import order_tiles


def visited(rows: int, columns: int, order: TileOrder, *, known: bool) -> list[tuple[int, int]]:
    """The tiles in the order of the one loop that is left, and that it has no other iterations."""
    tensor = tensor_of(*(rows, columns) if known else (None, None))
    order_tiles(tensor, 0, order)
    domains, derivation = derivation_of(tensor)
    groups = [domains.group(axis) for axis in tensor.logical]
    assert not any(derivation.inexact_splits(group, frozenset()) for group in groups)
    sizes = {} if known else {"T0_size0": rows, "T0_size1": columns}
    (loop,) = tensor.loop
    count = evaluate(domains.extent_of(loop), dict(sizes))
    assert count == rows * columns
    return [
        (evaluate(i, sizes | {"l0": t}), evaluate(j, sizes | {"l0": t}))
        for t in range(count)
        for i, j in [map(derivation.index, groups)]
    ]


def banded(rows: int, columns: int, band: int) -> list[tuple[int, int]]:
    """Row after row of bands."""
    return [
        (i, j)
        for first in range(0, rows, band)
        for j in range(columns)
        for i in range(first, min(first + band, rows))
    ]


def test_the_order_in_the_page() -> None:
    wanted = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2), (0, 3), (1, 3)]
    wanted += [(2, 0), (2, 1), (2, 2), (2, 3)]
    assert visited(3, 4, TileOrder("rows", band=2), known=True) == wanted


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 7), st.booleans())
def test_bands_of_rows_and_of_columns(rows: int, columns: int, band: int, known: bool) -> None:
    order = TileOrder("rows", band)
    assert visited(rows, columns, order, known=known) == banded(rows, columns, band)
    order = TileOrder("columns", band)
    wanted = [(i, j) for j, i in banded(columns, rows, band)]
    assert visited(rows, columns, order, known=known) == wanted


@pytest.mark.parametrize("wrong", [("rows", 0), ("rows", True), ("rows", 2.0), ("diagonal", 1)])
def test_what_is_no_order(wrong: Any) -> None:
    with pytest.raises(ScheduleError, match="WS0380"):
        order_tiles(tensor_of(3, 4), 0, TileOrder(*wrong))


def test_there_is_a_next_loop() -> None:
    with pytest.raises(ScheduleError, match="WS0201"):
        order_tiles(tensor_of(3, 4), 1, TileOrder())
