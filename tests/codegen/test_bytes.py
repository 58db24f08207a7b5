"""Integers of a byte become floats exactly, without the instruction that converts."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import warpsmith
from warpsmith import DataType, knobs, ops

ALL = np.arange(-128, 128, dtype=np.int8)
ROWS, COLUMNS, DEPTH = 16, 64, 256


@warpsmith.fuse
def of_bytes(x: Any, weight: Any, scale: Any) -> Any:
    return ops.linear(x, ops.cast(weight * scale, DataType.BFloat16))


@warpsmith.fuse
def of_halves(x: Any, weight: Any, scale: Any) -> Any:
    return ops.linear(x, ops.cast(ops.unpack_int4(weight) * scale, DataType.BFloat16))


def inputs(depth: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of rows that choose one place of k each, and weights in which all bytes are."""
    x = np.eye(ROWS, DEPTH).astype(ml_dtypes.bfloat16)
    weight = np.resize(np.roll(ALL, 5), (COLUMNS, depth + 16))[:, :depth].copy()
    return x, weight, np.ones((COLUMNS, 1), np.float32)


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_bytes_as_they_are_loaded(kind: Any) -> None:
    x, weight, scale = inputs(DEPTH)
    weight = weight.view(kind)
    assert {*weight[:, :ROWS].flat} == {*ALL.view(kind).tolist()}
    kernel = of_bytes.lower(x, weight, scale).compile().kernels[0]
    assert "ws_from_byte(T" in kernel.cuda
    assert "I2F" not in str(kernel.asm["sass"])
    with knobs.scope(device="sim"):
        found = np.asarray(of_bytes(x, weight, scale))
    np.testing.assert_array_equal(found, (x.astype(np.float32) @ weight.T.astype(np.float32)))


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_halves_of_bytes_as_they_are_computed(kind: Any) -> None:
    x, weight, scale = inputs(DEPTH // 2)
    kernel = of_halves.lower(x, weight.view(kind), scale).compile().kernels[0]
    assert "ws_from_int(T" in kernel.cuda
    assert "I2F" not in str(kernel.asm["sass"])


def test_without_products_one_instruction_converts() -> None:
    converted = warpsmith.fuse(lambda x: ops.cast(x, DataType.Float))
    assert "ws_from" not in converted.lower(ALL).compile().kernels[0].cuda
