"""Operations on integers and bits."""

from __future__ import annotations

from functools import partial

import numpy as np

from warpsmith.ir.dtypes import DataType
from warpsmith.ops.table.op import INTEGERS, Rule, joined, operation, spelled

_integer = partial(operation, rule=Rule.INTEGER)


def _shift(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shift counts that C allows, and whether `b` was one."""
    inside = (b >= 0) & (b < 8 * a.dtype.itemsize)
    return np.where(inside, b, 0).astype(a.dtype), inside


def _left_shift(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    count, inside = _shift(a, b)
    return np.where(inside, np.left_shift(a, count), 0).astype(a.dtype)


def _right_shift(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    count, inside = _shift(a, b)
    return np.where(inside, np.right_shift(a, count), np.where(a < 0, -1, 0)).astype(a.dtype)


def _logical_right_shift(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    count, inside = _shift(a, b)
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    shifted = np.right_shift(a.view(unsigned), count.view(unsigned)).view(a.dtype)
    return np.where(inside, shifted, 0).astype(a.dtype)


INTEGER = (
    _integer(
        "bitwise_and",
        np.bitwise_and,
        joined(spelled("({0} & {1})", *INTEGERS), spelled("({0} && {1})", DataType.Bool)),
        "Bits that both have; of bools, the logical and.",
    ),
    _integer(
        "bitwise_or",
        np.bitwise_or,
        joined(spelled("({0} | {1})", *INTEGERS), spelled("({0} || {1})", DataType.Bool)),
        "Bits that one has; of bools, the logical or.",
    ),
    _integer(
        "bitwise_xor",
        np.bitwise_xor,
        joined(spelled("({0} ^ {1})", *INTEGERS), spelled("({0} != {1})", DataType.Bool)),
        "Bits that differ; of bools, whether they differ.",
    ),
    _integer(
        "bitwise_not",
        np.invert,
        joined(spelled("(~{0})", *INTEGERS), spelled("(!{0})", DataType.Bool)),
        "All bits turned; of a bool, its logical not.",
    ),
    _integer(
        "bitwise_left_shift",
        _left_shift,
        spelled("ws_shift_left({0}, {1})", *INTEGERS),
        "a * 2^b, wrapping; 0 when b is negative or at least the number of bits.",
        ("shift",),
    ),
    _integer(
        "bitwise_right_shift",
        _right_shift,
        spelled("ws_shift_right({0}, {1})", *INTEGERS),
        "a / 2^b downwards; only the sign is left when b is negative or at least the bits.",
        ("shift",),
    ),
    _integer(
        "logical_right_shift",
        _logical_right_shift,
        spelled("ws_shift_right_logical({0}, {1})", *INTEGERS),
        "Bits moved right and filled with 0; 0 when b is negative or at least the bits.",
        ("shift",),
    ),
    _integer(
        "gcd",
        np.gcd,
        spelled("ws_gcd({0}, {1})", *INTEGERS),
        "Greatest common divisor, not negative.",
        ("gcd",),
    ),
    _integer(
        "mod",
        np.fmod,
        spelled("({0} % {1})", *INTEGERS),
        "C's remainder, with the sign of the dividend; unspecified for divisor 0.",
    ),
)
