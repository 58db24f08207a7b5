"""The fragment tables of the PTX manual, written down shape by shape.

Each entry gives the (row, column) of element i of a lane, with g the lane's group of four and t
its place within: element i of A, B and C lies in register i / (elements per register).
"""

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import numpy.typing as npt

from warpsmith.sim.isa import Type

Place = Callable[[int, int, int], tuple[int, int]]
Matrix = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Fragments:
    a_count: int
    a: Place
    b_count: int
    b: Place


def _c(g: int, t: int, i: int) -> tuple[int, int]:
    return (g if i < 2 else g + 8, 2 * t + (i & 1))


TABLES = {
    # bits of an element of A and B, m, k
    (16, 16, 8): Fragments(
        *(4, lambda g, t, i: (g if i < 2 else g + 8, 2 * t + (i & 1))),
        *(2, lambda g, t, i: (2 * t + i, g)),
    ),
    (16, 16, 16): Fragments(
        8,
        lambda g, t, i: (
            g if i < 2 or 4 <= i < 6 else g + 8,
            2 * t + (i & 1) + (0 if i < 4 else 8),
        ),
        *(4, lambda g, t, i: (2 * t + (i & 1) + (0 if i < 2 else 8), g)),
    ),
    (32, 16, 4): Fragments(
        *(2, lambda g, t, i: (g if i == 0 else g + 8, t)),
        *(1, lambda g, t, i: (t, g)),
    ),
    (32, 16, 8): Fragments(
        *(4, lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4)),
        *(2, lambda g, t, i: (t if i == 0 else t + 4, g)),
    ),
    (8, 16, 16): Fragments(
        *(8, lambda g, t, i: (g if i < 4 else g + 8, 4 * t + (i & 3))),
        *(4, lambda g, t, i: (4 * t + i, g)),
    ),
    (8, 16, 32): Fragments(
        16,
        lambda g, t, i: (
            g if i < 4 or 8 <= i < 12 else g + 8,
            4 * t + (i & 3) + (0 if i < 8 else 16),
        ),
        *(8, lambda g, t, i: (4 * t + (i & 3) + (0 if i < 4 else 16), g)),
    ),
    (64, 8, 4): Fragments(
        *(1, lambda g, t, i: (g, t)),
        *(1, lambda g, t, i: (t, g)),
    ),
    (64, 16, 4): Fragments(
        *(2, lambda g, t, i: (g if i == 0 else g + 8, t)),
        *(1, lambda g, t, i: (t, g)),
    ),
    (64, 16, 8): Fragments(
        *(4, lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4)),
        *(2, lambda g, t, i: (t if i == 0 else t + 4, g)),
    ),
    (64, 16, 16): Fragments(
        8,
        lambda g, t, i: (g if i % 2 == 0 else g + 8, (2 * i if i % 2 == 0 else 2 * i - 2) + t),
        *(4, lambda g, t, i: (t + 4 * i, g)),
    ),
}

NUMPY = {
    Type.F16: np.dtype(np.float16),
    Type.BF16: np.dtype(ml_dtypes.bfloat16),
    Type.TF32: np.dtype(np.float32),
    Type.F32: np.dtype(np.float32),
    Type.F64: np.dtype(np.float64),
    Type.E4M3: np.dtype(ml_dtypes.float8_e4m3fn),
    Type.E5M2: np.dtype(ml_dtypes.float8_e5m2),
    Type.S8: np.dtype(np.int8),
    Type.U8: np.dtype(np.uint8),
    Type.S32: np.dtype(np.int32),
}


def bits_of(matrix: Matrix) -> npt.NDArray[np.uint64]:
    unsigned = np.dtype(f"u{matrix.dtype.itemsize}")
    return np.ascontiguousarray(matrix).view(unsigned).astype(np.uint64)


def to_registers(matrix: Matrix, place: Place, count: int) -> npt.NDArray[np.uint64]:
    """Rows of 32 slots, from `count` elements a lane."""
    width = 8 * matrix.dtype.itemsize
    packed = max(1, 32 // width)
    bits = bits_of(matrix)
    rows = np.zeros((count // packed, 32), np.uint64)
    for lane in range(32):
        for i in range(count):
            value = bits[place(lane // 4, lane % 4, i)]
            rows[i // packed, lane] |= value << np.uint64(i % packed * width)
    return rows


def from_registers(
    rows: npt.NDArray[np.uint64], place: Place, shape: tuple[int, int], dtype: np.dtype
) -> Matrix:
    width = 8 * dtype.itemsize
    packed = max(1, 32 // width)
    out = np.zeros(shape, f"u{dtype.itemsize}")
    mask = (1 << width) - 1
    for lane in range(32):
        for i in range(len(rows) * packed):
            slot = int(rows[i // packed, lane])
            out[place(lane // 4, lane % 4, i)] = slot >> i % packed * width & mask
    return out.view(dtype)


def accumulator(m: int, n: int) -> tuple[int, Place]:
    """Elements a lane of C and D, and their places; wider ones repeat every eight columns."""
    if m == 8:
        return 2, lambda g, t, i: (g, 2 * t + i)

    def place(g: int, t: int, i: int) -> tuple[int, int]:
        row, column = _c(g, t, i % 4)
        return row, column + 8 * (i // 4)

    return m * n // 32, place
