"""Operations that choose or blend: extremes, limits, selection, interpolation."""

from __future__ import annotations

import numpy as np

from warpsmith.ir.dtypes import DataType
from warpsmith.ops.table.op import COMPUTED, FLOATS, NUMBERS, Spelling, joined, operation, spelled


def _relu(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(x, x.dtype.type(0)))


def _clamp(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.asarray(np.minimum(np.maximum(x, low), high))


def _threshold(x: np.ndarray, limit: np.ndarray, value: np.ndarray) -> np.ndarray:
    return np.where(x <= limit, value, x)


def _lerp(start: np.ndarray, end: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Counted from the nearer end, so that weight 1 gives `end` exactly."""
    step = end - start
    return np.asarray(
        np.where(np.abs(weight) < 0.5, start + weight * step, end - step * (1 - weight))
    )


def _addcmul(x: np.ndarray, a: np.ndarray, b: np.ndarray, value: np.ndarray) -> np.ndarray:
    return np.asarray(x + value * a * b)


CHOICE = (
    operation(
        "addcmul",
        _addcmul,
        spelled("({0} + {3} * {1} * {2})", *NUMBERS),
        "x + value * a * b, for operands (x, a, b, value).",
    ),
    operation(
        "clamp",
        _clamp,
        spelled("ws_minimum(ws_maximum({0}, {1}), {2})", *NUMBERS),
        "x between low and high; NaN when one is NaN, high when low is above high.",
        ("minimum_maximum",),
    ),
    operation(
        "lerp",
        _lerp,
        spelled("ws_lerp({0}, {1}, {2})", *FLOATS),
        "start + weight * (end - start), exact at weight 0 and 1.",
        ("lerp",),
    ),
    operation(
        "maximum",
        np.maximum,
        joined(spelled("ws_maximum({0}, {1})", *NUMBERS), spelled("({0} || {1})", DataType.Bool)),
        "The larger; NaN when one is NaN.",
        ("minimum_maximum",),
    ),
    operation(
        "minimum",
        np.minimum,
        joined(spelled("ws_minimum({0}, {1})", *NUMBERS), spelled("({0} && {1})", DataType.Bool)),
        "The smaller; NaN when one is NaN.",
        ("minimum_maximum",),
    ),
    operation(
        "relu",
        _relu,
        Spelling(
            (
                (DataType.Double, "ws_maximum({0}, 0.0)"),
                (DataType.Float, "ws_maximum({0}, 0.0f)"),
                (DataType.Int, "ws_maximum({0}, 0ll)"),
                (DataType.Int32, "ws_maximum({0}, 0)"),
            )
        ),
        "x where it is positive, else 0; NaN stays.",
        ("minimum_maximum",),
    ),
    operation(
        "threshold",
        _threshold,
        spelled("ws_threshold({0}, {1}, {2})", *NUMBERS),
        "value where x is at most limit, else x, for operands (x, limit, value); NaN stays.",
        ("threshold",),
    ),
    operation(
        "where",
        np.where,
        spelled("({0} ? {1} : {2})", *COMPUTED),
        "a where the condition holds, else b, for operands (condition, a, b).",
        conditions=1,
    ),
)
