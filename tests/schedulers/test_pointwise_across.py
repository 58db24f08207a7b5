"""Vectors of rows that nothing divides go on from one row to the next."""

from typing import Any

import pytest
import torch

from warpsmith import DataType, fuse, knobs


@fuse
def scaled(x: Any, rows: Any, columns: Any) -> Any:
    wide = x.to(DataType.Float) * rows[:, None] + columns
    return wide.to(x.dtype)


@fuse
def chosen(x: Any, index: Any, table: Any) -> Any:
    return (x.to(DataType.Float) * table[index[:, None]]).to(x.dtype)


def parameters(*shape: int, gap: int = 0) -> str:
    rows, columns = shape
    x = torch.zeros(rows, columns + gap, dtype=torch.bfloat16)[:, :columns]
    return said(scaled.lower(x, torch.zeros(rows), torch.zeros(columns)))


def said(lowered: Any) -> str:
    lines = lowered.compile().explain().splitlines()
    return next(line for line in lines if "parameters" in line)


@pytest.mark.parametrize("shape", [(8, 33), (5, 33), (16, 7), (3, 3), (1, 17), (7, 1), (31, 129)])
def test_values_of_rows_are_those_of_each_element(shape: tuple[int, int]) -> None:
    """Of rows shorter than a vector, too, and where the last vector is cut short."""
    x, rows, columns = torch.randn(shape).bfloat16(), torch.randn(shape[0]), torch.randn(shape[1])
    with knobs.scope(device="sim"):
        found = scaled(x, rows, columns)
    torch.testing.assert_close(found, (x.float() * rows[:, None] + columns).bfloat16())


def test_vectors_cross_rows_only_where_they_must_and_can() -> None:
    odd = parameters(16, 33)
    assert "vector=8" in odd
    assert "across=True" in odd
    assert "exact=True" in odd
    assert "across=True" in parameters(5, 33)
    assert "exact=False" in parameters(5, 33)
    assert "across=False" in parameters(16, 40)
    assert "vector=1" in parameters(16, 33, gap=1)
    assert "across=False" in parameters(16, 33, gap=1)


def test_what_indices_choose_for_each_row_is_read_for_each_element() -> None:
    x, table = torch.randn(16, 33).bfloat16(), torch.randn(5)
    index = torch.randint(5, (16,))
    with knobs.scope(device="sim"):
        found = chosen(x, index, table)
    torch.testing.assert_close(found, (x.float() * table[index][:, None]).bfloat16())
    assert "vector=8" in said(chosen.lower(x, index, table))
