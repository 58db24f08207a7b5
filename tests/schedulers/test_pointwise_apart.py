"""Elements that no vectors walk: how many a thread has side by side, and how many in turn."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from warpsmith import fuse, knobs, ops, verify
from warpsmith.schedulers.pointwise import apart

Inputs = tuple[torch.Tensor, ...]


def differences(x: Any) -> Any:
    return x[:, 1:] - x[:, :-1]


def turned(x: Any) -> Any:
    return x + ops.flip(x, [1])


def blurred(x: Any) -> Any:
    rows, columns = ops.size(x, 0), ops.size(x, 1)
    wide = ops.pad(x, [1, 1, 1, 1])
    parts = [wide[i : i + rows, j : j + columns] for i in range(3) for j in range(3)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def lengths(x: Any, y: Any) -> Any:
    return ops.sqrt(x * x + y * y)


def said(function: Callable[..., Any], *inputs: Any) -> str:
    lines = fuse(function).lower(*inputs).compile(target="h200").explain().splitlines()
    return next(line for line in lines if "parameters" in line)


def pairs(rows: int, columns: int) -> Inputs:
    x = torch.empty(rows, columns, 2, dtype=torch.bfloat16)
    return x[..., 0], x[..., 1]


def test_vectors_are_as_wide_as_l1_keeps_up_with_memory() -> None:
    image = torch.empty(4000, 5000, dtype=torch.bfloat16)
    assert "vector=8, unroll=1," in said(turned, image)
    assert "vector=2, unroll=2," in said(blurred, image)
    assert "vector=1, unroll=2," in said(blurred, image.float())
    assert "vector=4, unroll=2," in said(lengths, *pairs(4000, 2500))


def test_threads_have_one_vector_where_blocks_are_few() -> None:
    assert "vector=4, unroll=1," in said(lengths, *pairs(400, 250))


def test_rows_of_a_stride_that_nothing_divides_are_read_in_turn() -> None:
    wide = torch.empty(4000, 5007, dtype=torch.bfloat16)
    assert "vector=1, unroll=8," in said(lengths, wide[:, :2503], wide[:, 2504:])


@pytest.mark.few(6)
@pytest.mark.parametrize("shape", [(5, 33), (3, 8), (7, 129), (16, 64), (1, 5)])
@pytest.mark.parametrize("function", [differences, turned, blurred])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float])
def test_they_are_right_in_turn(
    function: Callable[..., Any],
    shape: tuple[int, int],
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where a thread has several, the last block is not full, and lanes ask for themselves."""
    monkeypatch.setattr(apart, "BLOCKS_PER_SM", 0)
    assert verify(fuse(function), [torch.randn(shape).to(dtype)]).verdict == "clean"


def test_every_second_element_is_right_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "BLOCKS_PER_SM", 0)
    x = torch.randn(9, 35, 2)
    with knobs.scope(device="sim"):
        found = fuse(lengths)(x[..., 0], x[..., 1])
    np.testing.assert_allclose(found, x.square().sum(-1).sqrt(), rtol=1e-6)


def test_each_lane_asks_for_its_place_at_once() -> None:
    """Of a condition inside of another one ptxas makes a branch, and waits in it for the load."""
    image = torch.empty(403, 5001, dtype=torch.bfloat16)
    text = str(fuse(blurred).lower(image).compile(target="h200").asm["cuda"])
    kernel = text[text.index('extern "C"') :]
    assert kernel.count("if (") > 9
    assert not re.search(r"if \([^{}]*\{[^{}]*if \(", kernel)
