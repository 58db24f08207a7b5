"""Kernels of products begin reductions where that is predicted to be faster."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import warpsmith
from tests.support.binaries import uncompiled
from warpsmith import DataType, knobs, ops

FLOAT, BFLOAT = DataType.Float, DataType.BFloat16


def planned(body: Any, *shapes: tuple[int, ...]) -> str:
    """What is said of a call on an H200."""
    given = [np.zeros(shape, ml_dtypes.bfloat16) for shape in shapes]
    with knobs.scope(target="h200"), uncompiled():
        return warpsmith.fuse(body).lower(*given).compile().explain()


def with_sums(*dims: int) -> Any:
    def body(x: Any, w: Any) -> Any:
        stored: Any = ops.cast(ops.relu(ops.cast(ops.linear(x, w), FLOAT)), BFLOAT)
        wide: Any = ops.cast(stored, FLOAT)
        return stored, ops.sum(wide, list(dims))

    return body


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
def test_sums_of_a_large_product_do_not_read_it(dims: tuple[int, ...]) -> None:
    said = planned(with_sums(*dims), (8192, 1024), (8192, 1024))
    assert said.startswith("2 kernels")
    (cut,) = (line for line in said.splitlines() if line.startswith("cut"))
    assert " float[8192," in cut
    assert "matmul: threads reduce what they have of a tile, which others join" in said


def test_those_of_a_small_one_do() -> None:
    """The kernel that reads it takes no more than a launch."""
    said = planned(with_sums(0), (256, 4096), (128, 4096))
    (cut,) = (line for line in said.splitlines() if line.startswith("cut"))
    assert " bfloat16[256,128]" in cut


@pytest.mark.parametrize("kind", ["two products", "not stored"])
def test_others_read_what_is_stored(kind: str) -> None:
    def body(x: Any, w: Any, v: Any) -> Any:
        h: Any = ops.cast(ops.linear(x, w), FLOAT)
        other: Any = ops.cast(ops.linear(x, v), FLOAT)
        if kind == "two products":
            h = ops.mul(ops.silu(h), other)
        stored: Any = ops.cast(h, BFLOAT)
        wide: Any = ops.cast(stored, FLOAT)
        total = ops.sum(wide, [0])
        return total if kind == "not stored" else (stored, total)

    said = planned(body, (8192, 1024), (4096, 1024), (4096, 1024))
    assert " bfloat16[8192,4096]" in next(x for x in said.splitlines() if x.startswith("cut"))
