"""Arithmetic on numbers of one type: sums, products, quotients, rounding, signs."""

from __future__ import annotations

import numpy as np

from warpsmith.ir.dtypes import DataType
from warpsmith.ops.table.op import (
    FLOATS,
    INTEGERS,
    NUMBERS,
    Meaning,
    PointwiseOp,
    Rule,
    Spelling,
    joined,
    library,
    library2,
    operation,
    spelled,
)

_BOOL = DataType.Bool
_UNCHANGED = spelled("{0}", *INTEGERS)


def _div(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """True division of floats; of integers the quotient towards zero, and 0 for divisor 0."""
    if a.dtype.kind == "f":
        return np.asarray(np.true_divide(a, b))
    quotient = np.floor_divide(a, b)
    inexact = (np.fmod(a, b) != 0) & ((a < 0) != (b < 0))
    return np.asarray((quotient + inexact).astype(a.dtype))


def _pow(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Power; of integers modulo 2^bits, and a negative exponent gives the quotient towards zero.

    That makes 1 / a^-b, so 0 unless `a` is 1 or -1; a = 0 gives 0 too, as in PyTorch.
    """
    if a.dtype.kind == "f":
        return np.asarray(np.power(a, b))
    unit = np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b & 1), 0))
    return np.where(b < 0, unit, np.power(a, np.maximum(b, 0))).astype(a.dtype)


def _sign(x: np.ndarray) -> np.ndarray:
    """-1, 0 or 1; NaN gives 0, as in PyTorch."""
    if x.dtype.kind == "b":
        return x
    return np.asarray((x > 0).astype(x.dtype) - (x < 0).astype(x.dtype))


def _frac(x: np.ndarray) -> np.ndarray:
    return np.asarray(x - np.trunc(x))


def _rounding(name: str, numpy: Meaning, function: str, doc: str) -> PointwiseOp:
    """A rounding to a whole number, which leaves integers alone."""

    def meaning(x: np.ndarray) -> np.ndarray:
        return numpy(x) if x.dtype.kind == "f" else x

    return operation(name, meaning, joined(library(function), _UNCHANGED), doc)


BITS_OF_ABS = "__int_as_float(ws_float_bits({0}) & 0x7fffffff)"
"""`fabsf` as bits: of `fabsf(x) + 0.5f > 0` ptxas 13.0 makes "always", though a NaN is not more."""

ARITHMETIC = (
    operation(
        "abs",
        np.abs,
        Spelling(
            (
                (DataType.Float, BITS_OF_ABS),
                (DataType.Double, "fabs({0})"),
                (DataType.Int, "llabs({0})"),
                (DataType.Int32, "abs({0})"),
            )
        ),
        "Absolute value; the lowest integer stays as it is.",
        pieces=("float_bits",),
    ),
    operation(
        "atan2",
        np.arctan2,
        library2("atan2"),
        "Angle of the point (b, a) in radians.",
        rule=Rule.FLOAT,
    ),
    operation(
        "add",
        np.add,
        joined(spelled("({0} + {1})", *NUMBERS), spelled("({0} || {1})", _BOOL)),
        "Sum; of bools, their logical or.",
    ),
    _rounding("ceil", np.ceil, "ceil", "Smallest whole number that is not below x."),
    operation(
        "div",
        _div,
        joined(spelled("({0} / {1})", *FLOATS), spelled("ws_quotient({0}, {1})", *INTEGERS)),
        "Quotient; of integers, towards zero. An integer divisor of 0 gives an unspecified number.",
        ("integer_quotient",),
    ),
    _rounding("floor", np.floor, "floor", "Largest whole number that is not above x."),
    operation(
        "fmod",
        np.fmod,
        joined(library2("fmod"), spelled("ws_rest({0}, {1})", *INTEGERS)),
        "Remainder with the sign of the dividend. An integer divisor of 0 gives an unspecified "
        "number.",
        ("integer_quotient",),
    ),
    operation(
        "frac",
        _frac,
        spelled("ws_frac({0})", *FLOATS),
        "x - trunc(x); NaN for infinities.",
        ("frac",),
    ),
    operation(
        "mul",
        np.multiply,
        joined(spelled("({0} * {1})", *NUMBERS), spelled("({0} && {1})", _BOOL)),
        "Product; of bools, their logical and.",
    ),
    operation("neg", np.negative, spelled("(-{0})", *NUMBERS), "x with the other sign."),
    operation(
        "nextafter",
        np.nextafter,
        library2("nextafter"),
        "The float beside `a` on the way to `b`.",
        halves=False,
    ),
    operation(
        "pow",
        _pow,
        joined(library2("pow"), spelled("ws_pow({0}, {1})", *INTEGERS)),
        "Power; of integers, wrapping, and 0 for negative exponents unless |a| is 1.",
        ("integer_pow",),
    ),
    operation(
        "remainder",
        np.remainder,
        spelled("ws_remainder({0}, {1})", *NUMBERS),
        "Remainder with the sign of the divisor. An integer divisor of 0 gives an unspecified "
        "number.",
        ("remainder",),
    ),
    _rounding("round", np.rint, "rint", "Nearest whole number, the even one of two."),
    operation(
        "sign",
        _sign,
        joined(spelled("ws_sign({0})", *NUMBERS), spelled("{0}", _BOOL)),
        "-1, 0 or 1; 0 for NaN.",
        ("sign",),
    ),
    operation("sub", np.subtract, spelled("({0} - {1})", *NUMBERS), "Difference."),
    operation(
        "truediv",
        np.true_divide,
        spelled("({0} / {1})", *FLOATS),
        "Quotient, correctly rounded.",
        rule=Rule.FLOAT,
    ),
    _rounding("trunc", np.trunc, "trunc", "Whole number next to x towards zero."),
)
