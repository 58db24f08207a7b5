"""Questions: comparisons, logic on bools, and the classes of floats."""

from __future__ import annotations

import numpy as np

from warpsmith.ir.dtypes import DataType
from warpsmith.ops.table.op import (
    COMPUTED,
    INTEGERS,
    Meaning,
    PointwiseOp,
    Rule,
    Spelling,
    joined,
    operation,
    spelled,
)

_EXACT = (*INTEGERS, DataType.Bool)

# Infinity by its bits, for want of headers.
_INFINITY = {
    DataType.Double: "__longlong_as_double(0x7ff0000000000000ll)",
    DataType.Float: "__int_as_float(0x7f800000)",
}


def _compare(name: str, numpy: Meaning, sign: str, doc: str) -> PointwiseOp:
    cuda = spelled(f"({{0}} {sign} {{1}})", *COMPUTED)
    return operation(name, numpy, cuda, doc, rule=Rule.COMPARE)


def _ordered(name: str, numpy: Meaning, sign: str, single: str, doc: str) -> PointwiseOp:
    """A comparison whose text for Float is another one: ptxas answers some by itself, wrongly."""
    others = tuple(dtype for dtype in COMPUTED if dtype is not DataType.Float)
    cuda = joined(spelled(single, DataType.Float), spelled(f"({{0}} {sign} {{1}})", *others))
    return operation(name, numpy, cuda, doc, ("at_least",), rule=Rule.COMPARE)


def _logical(name: str, numpy: Meaning, text: str, doc: str) -> PointwiseOp:
    return operation(name, numpy, spelled(text, DataType.Bool), doc, rule=Rule.LOGICAL)


def _classify(name: str, numpy: Meaning, floats: Spelling, exact: str, doc: str) -> PointwiseOp:
    """A question about floats, whose answer for integers and bools is `exact`."""
    cuda = joined(floats, spelled(exact, *_EXACT))
    return operation(name, numpy, cuda, doc, rule=Rule.CLASSIFY)


def _against_infinity(double: str, single: str) -> Spelling:
    """Texts in which `INF` stands for infinity."""
    texts = {DataType.Double: double, DataType.Float: single}
    return Spelling(
        tuple((dtype, text.replace("INF", _INFINITY[dtype])) for dtype, text in texts.items())
    )


def _signbit(x: np.ndarray) -> np.ndarray:
    """Whether the sign bit is set: -0.0 and negative NaNs have it."""
    if x.dtype.kind == "f":
        return np.asarray(np.signbit(x))
    return np.zeros(x.shape, bool) if x.dtype.kind == "b" else np.asarray(x < 0)


def _is_infinity(sign: int) -> Meaning:
    def meaning(x: np.ndarray) -> np.ndarray:
        if x.dtype.kind != "f":
            return np.zeros(x.shape, bool)
        return np.asarray(x == sign * np.inf)

    return meaning


# The operand stays in the text though its value is nothing to the answer: each is used once.
_NEVER = "((void){0}, false)"
_ALWAYS = "((void){0}, true)"

LOGIC = (
    _compare("eq", np.equal, "==", "a = b."),
    _compare("ne", np.not_equal, "!=", "a is not b; true for NaN."),
    _ordered("ge", np.greater_equal, ">=", "ws_at_least({0}, {1})", "a is at least b."),
    _ordered("gt", np.greater, ">", "ws_above({0}, {1})", "a is above b."),
    _ordered("le", np.less_equal, "<=", "ws_at_least({1}, {0})", "a is at most b."),
    _ordered("lt", np.less, "<", "ws_above({1}, {0})", "a is below b."),
    _logical("logical_and", np.logical_and, "({0} && {1})", "Both are not zero."),
    _logical("logical_or", np.logical_or, "({0} || {1})", "One is not zero."),
    _logical("logical_not", np.logical_not, "(!{0})", "x is zero."),
    _classify(
        "isfinite",
        np.isfinite,
        _against_infinity("(fabs({0}) < INF)", "(fabsf({0}) < INF)"),
        _ALWAYS,
        "Neither infinite nor NaN.",
    ),
    _classify(
        "isinf",
        np.isinf,
        _against_infinity("(fabs({0}) == INF)", "(fabsf({0}) == INF)"),
        _NEVER,
        "Infinite.",
    ),
    _classify(
        "isnan",
        np.isnan,
        _against_infinity("(!(fabs({0}) <= INF))", "(!(fabsf({0}) <= INF))"),
        _NEVER,
        "Not a number.",
    ),
    _classify(
        "isneginf",
        _is_infinity(-1),
        _against_infinity("({0} == -INF)", "({0} == -INF)"),
        _NEVER,
        "Negative infinity.",
    ),
    _classify(
        "isposinf",
        _is_infinity(1),
        _against_infinity("({0} == INF)", "({0} == INF)"),
        _NEVER,
        "Positive infinity.",
    ),
    operation(
        "isreal",
        lambda x: np.ones(x.shape, bool),
        spelled(_ALWAYS, *COMPUTED),
        "True: there are no complex types here.",
        rule=Rule.CLASSIFY,
    ),
    operation(
        "signbit",
        _signbit,
        joined(
            spelled("(__double_as_longlong({0}) < 0)", DataType.Double),
            spelled("(ws_float_bits({0}) < 0)", DataType.Float),
            spelled("({0} < 0)", *INTEGERS),
            spelled(_NEVER, DataType.Bool),
        ),
        "The sign bit is set: true for -0.0, and either for a NaN.",
        ("float_bits",),
        rule=Rule.CLASSIFY,
    ),
)
