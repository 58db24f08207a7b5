"""Elements of a program's inputs, drawn from a seed, in any layout."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.programs.program import Layout
from warpsmith.ir.dtypes import DataType
from warpsmith.runtime.arrays import NUMPY_DTYPES

VALUES = ("normal", "positive", "unit", "whole", "special", "ends", "unset")
"""How elements are drawn; integers and bools take `normal`, `positive` and `ends` alone, which do
not decrease. `unset` ones are whatever the memory held: they are for planning."""

_BOUNDARY = 64  # bytes


def array(
    dtype: DataType,
    shape: Sequence[int],
    layout: Layout = Layout(),  # noqa: B008  # frozen
    values: str = "normal",
    seed: int = 0,
) -> np.ndarray:
    """An array that lies in memory as `layout` says; bytes between elements are 0xFF."""
    kind = np.dtype(NUMPY_DTYPES[dtype.value])
    strides = layout.strides(shape)
    steps = ((extent - 1) * step for extent, step in zip(shape, strides, strict=True))
    last = sum(steps) if 0 not in shape else 0
    whole = np.empty(_BOUNDARY + (layout.offset + last + 1) * kind.itemsize, np.uint8)
    if values != "unset":
        whole.fill(0xFF)
    start = -whole.ctypes.data % _BOUNDARY + layout.offset * kind.itemsize
    made = np.ndarray(
        tuple(shape),
        kind,
        buffer=whole.data,
        offset=start,
        strides=[step * kind.itemsize for step in strides],
    )
    if made.size and values != "unset":
        made[...] = _elements(dtype, shape, values, seed).astype(kind)
    return made


def _elements(dtype: DataType, shape: Sequence[int], values: str, seed: int) -> np.ndarray:
    draw = np.random.default_rng(seed)
    size = tuple(shape)
    if dtype is DataType.Bool:
        return draw.integers(0, 2, size).astype(bool)
    if values == "ends":
        return np.asarray(np.cumsum(draw.choice((0, 0, 1, 2, 5, 9), size), -1))
    if dtype.is_int:
        return draw.integers(1 if values == "positive" else -9, 10, size)
    drawn: Any
    if values == "positive":
        drawn = draw.uniform(0.5, 2, size)
    elif values == "unit":
        drawn = draw.uniform(-0.95, 0.95, size)
    elif values == "whole":
        drawn = draw.integers(-4, 5, size).astype(float)
    else:
        drawn = draw.standard_normal(size)
    if values == "special":
        odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e4, -1e-6])
        drawn = np.where(draw.random(size) < 0.1, draw.choice(odd, size), drawn)
    return np.asarray(drawn)
