"""Vectors of rows that nothing divides go on from one row to the next."""

from typing import Any

import pytest
import torch

from warpsmith import DataType, fuse, knobs, ops


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


@fuse
def gated(x: Any, weight: Any, bias: Any, rows: Any) -> Any:
    return ops.tanh(x * weight + bias) * rows


@fuse
def biased(x: Any, weight: Any, bias: Any) -> Any:
    return x * weight + bias


SHAPES = [(17, 33), (5, 3), (9, 1), (40, 7), (3, 8), (7, 10), (64, 517), (3, 1029), (6, 36), (2, 9)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.half, torch.float])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.few(3)
def test_vectors_of_one_row_go_on_at_its_beginning(
    shape: tuple[int, int], dtype: torch.dtype
) -> None:
    """Of rows shorter than a vector, too; with and without what has one element for a row."""
    x, rows = torch.randn(shape).to(dtype), torch.randn(shape[0], 1).to(dtype)
    weight, bias = torch.randn(2, shape[1]).to(dtype).clone().unbind()
    bias = bias.clone()
    with knobs.scope(device="sim"):
        found, plain = gated(x, weight, bias, rows), biased(x, weight, bias)
    exact = x.double() * weight.double() + bias.double()
    step = torch.finfo(dtype).eps
    torch.testing.assert_close(plain.double(), exact, rtol=2 * step, atol=2 * step)
    exact = exact.tanh() * rows.double()
    torch.testing.assert_close(found.double(), exact, rtol=4 * step, atol=8 * step)


def test_which_inputs_go_around() -> None:
    def around(columns: int, *, offset: int = 0, dtype: torch.dtype = torch.bfloat16) -> int:
        weight, bias = torch.zeros(columns + offset, dtype=dtype), torch.zeros(columns, dtype=dtype)
        made = biased.lower(torch.zeros(64, columns, dtype=dtype), weight[offset:], bias).compile()
        return made.kernels[0].cuda.count("= ws_load_around<")

    assert around(33) == 2
    assert around(36) == 2, "for accesses of 8 bytes"
    assert around(34, dtype=torch.float) == 2
    assert around(40) == 0
    assert around(33, offset=1) == 1, "one of them begins anywhere"
    assert around(36, offset=1) == 0
