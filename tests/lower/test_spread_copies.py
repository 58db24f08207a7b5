"""Vectors of elements that are for several lanes each: bytes that hold two values of 4 bits."""

from typing import Any

import numpy as np
import pytest

import warpsmith
from warpsmith import DataType, knobs, ops
from warpsmith.engine.compiled import CompiledKernel

Array = np.ndarray


def stored(rows: int, columns: int, seed: int = 0) -> Array:
    random = np.random.default_rng([seed, rows, columns])
    return random.integers(-128, 128, (rows, columns)).astype(np.int8)


def unpacked(given: Array, *, signed: bool = True) -> Array:
    """`[rows, columns]` bytes as `[rows, 2 * columns]` values."""
    wide = given.astype(np.int64)
    below = (wide + 8) % 16 - 8 if signed else wide % 16
    above = wide // 16 if signed else wide // 16 % 16
    return np.stack([below, above], -1).reshape(len(given), -1)


def made(function: Any, *given: Array) -> CompiledKernel:
    """The kernel of a program, which is clean."""
    with knobs.scope(device="sim"):
        compiled = warpsmith.fuse(function).lower(*given).compile()
    assert compiled.verify(schedules=2).verdict == "clean"
    (kernel,) = compiled.kernels
    return kernel


@pytest.mark.parametrize("signed", [True, False])
def test_bytes_are_loaded_in_vectors_half_as_wide_as_what_is_stored(signed: bool) -> None:
    def program(x: Any) -> Any:
        return ops.cast(ops.unpack_int4(x, signed=signed), DataType.Half)

    assert "ws_load_where<1>(v, " in made(program, stored(33, 64)).cuda
    assert "signed char T0_few[4]" not in made(program, stored(33, 63)).cuda
    fused = warpsmith.fuse(program)
    with knobs.scope(device="sim"):
        for rows, columns in ((33, 64), (5, 62), (5, 63), (1, 60), (7, 1), (130, 256)):
            given = stored(rows, columns)
            wanted = unpacked(given, signed=signed)
            np.testing.assert_array_equal(np.asarray(fused(given)), wanted)
            apart = stored(rows, columns + 4)[:, 1 : columns + 1]  # rows that begin anywhere
            wanted = unpacked(np.ascontiguousarray(apart), signed=signed)
            np.testing.assert_array_equal(np.asarray(fused(apart)), wanted)


@pytest.mark.parametrize("columns", [64, 40, 63])
def test_so_are_those_that_are_summed(columns: int) -> None:
    given, x = stored(33, columns), stored(33, 2 * columns, seed=1).astype(np.float32)

    def rows(x: Any, packed: Any) -> Any:
        return ops.sum(x * ops.cast(ops.unpack_int4(packed), DataType.Float), [1])

    def of_columns(packed: Any) -> Any:
        return ops.sum(ops.cast(ops.unpack_int4(packed), DataType.Float), [0])

    with knobs.scope(device="sim"):
        found = np.asarray(warpsmith.fuse(rows)(x, given))
        np.testing.assert_array_equal(found, (x * unpacked(given)).sum(1))
        found = np.asarray(warpsmith.fuse(of_columns)(given))
        np.testing.assert_array_equal(found, unpacked(given).sum(0))
    texts = [made(rows, x, given).cuda, made(of_columns, given).cuda]
    assert [("_few[" in text) for text in texts] == [columns % 2 == 0] * 2
