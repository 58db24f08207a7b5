"""Quotients of whole numbers and a constant, as those of pixels and 255."""

from __future__ import annotations

import numpy as np

from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Pointwise
from warpsmith.ir.scalar import Const
from warpsmith.ir.tensor import Operation, TensorView, Value

_BITS = 16
"""Of a dividend, and of a divisor between its first and its last one."""


def divided_by_parts(operation: Operation) -> Pointwise | None:
    """Two multiplications with the parts of the divisor's reciprocal, `x * high + x * low`, in
    place of a division in Float of an integer of at most 16 bits by a positive constant of as few
    bits; None where it is something else.

    The result is the same in all bits. A quotient X / C of such whole numbers and a number halfway
    between two floats, M of 25 bits, are at least 1 / (M * C) apart, relative, or 2^-41, and are
    never equal. The sum of both parts is off by 2^-47 before the one rounding of `fma`.
    """
    if not (isinstance(operation, Pointwise) and operation.op in ("div", "truediv")):
        return None
    dividend, divisor = operation.inputs
    if operation.output.dtype is not DataType.Float or not isinstance(divisor, Const):
        return None
    parts = _parts(float(np.float32(divisor.value)))
    if parts is None or not _is_whole(dividend):
        return None
    numbers = (Const(part, DataType.Float) for part in parts)
    return Pointwise("times_parts", (dividend, *numbers), operation.output)


def _parts(divisor: float) -> tuple[float, float] | None:
    """The reciprocal of a number of few bits: as a float, and what that lacks."""
    if not 2.0**-64 <= divisor <= 2.0**64:
        return None
    numerator = divisor.as_integer_ratio()[0]
    odd = numerator // (numerator & -numerator)
    if not 1 < odd < 1 << _BITS:  # one of 1 is moved by the compiler
        return None
    high = float(np.float32(1 / divisor))
    return high, float(np.float32(1 / divisor - high))


def _is_whole(value: Value) -> bool:
    made = value.definition if isinstance(value, TensorView) else None
    if not (isinstance(made, Pointwise) and made.op == "cast"):
        return False
    return made.inputs[0].dtype.is_small_int
