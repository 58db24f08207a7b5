"""Integers of a byte become floats exactly, without the instruction that converts."""

import numpy as np
import pytest

import warpsmith
from warpsmith import DataType, knobs, ops

ALL = np.arange(-128, 128, dtype=np.int8)


@warpsmith.fuse
def loaded(x):  # type: ignore[no-untyped-def]
    return ops.cast(x, DataType.Float)


@warpsmith.fuse
def computed(x):  # type: ignore[no-untyped-def]
    return ops.cast(x + x, DataType.Float)


@pytest.mark.parametrize(
    ("program", "exact", "function"),
    [(loaded, ALL, "ws_from_byte"), (computed, ALL + ALL, "ws_from_int")],
)
def test_all_of_them(program, exact, function) -> None:  # type: ignore[no-untyped-def]
    kernel = program.lower(ALL).compile().kernels[0]
    assert f"{function}(T" in kernel.cuda
    assert "I2F" not in str(kernel.asm["sass"])
    with knobs.scope(device="sim"):
        found = np.asarray(program(ALL))
    np.testing.assert_array_equal(found, exact.astype(np.float32))
