"""Functions of one real number: exponentials, logarithms, angles, and statistics' integrals."""

from __future__ import annotations

import numpy as np

from warpsmith.ir.dtypes import DataType
from warpsmith.ops.table import special
from warpsmith.ops.table.op import (
    FLOATS,
    Meaning,
    PointwiseOp,
    Rule,
    Spelling,
    library,
    operation,
    spelled,
)


def _float(
    name: str, numpy: Meaning, doc: str, cuda: Spelling | None = None, pieces: tuple[str, ...] = ()
) -> PointwiseOp:
    """A unary operation by Rule.FLOAT; the C library has it by the same name unless `cuda`."""
    return operation(name, numpy, cuda or library(name), doc, pieces, rule=Rule.FLOAT)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def _silu(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / (1.0 + np.exp(-x)))


_SIGMOID = Spelling(
    (
        (DataType.Double, "(1.0 / (1.0 + exp(-{0})))"),
        (DataType.Float, "ws_divide_full(1.0f, 1.0f + expf(-{0}))"),
    )
)

TRANSCENDENTAL = (
    _float("acos", np.arccos, "Inverse cosine, in radians."),
    _float("acosh", np.arccosh, "Inverse hyperbolic cosine."),
    _float("asin", np.arcsin, "Inverse sine, in radians."),
    _float("asinh", np.arcsinh, "Inverse hyperbolic sine."),
    _float("atan", np.arctan, "Inverse tangent, in radians."),
    _float("atanh", np.arctanh, "Inverse hyperbolic tangent."),
    _float("cos", np.cos, "Cosine of radians."),
    _float("cosh", np.cosh, "Hyperbolic cosine."),
    _float("erf", special.erf, "Error function."),
    _float("erfc", special.erfc, "1 - erf(x)."),
    _float("erfcinv", special.erfcinv, "Inverse of erfc."),
    _float("erfcx", special.erfcx, "exp(x * x) * erfc(x), finite where the factors are not."),
    _float("erfinv", special.erfinv, "Inverse of erf."),
    _float("exp", np.exp, "e to the power x."),
    _float("exp2", np.exp2, "2 to the power x."),
    _float("expm1", np.expm1, "exp(x) - 1, accurate near 0."),
    _float("lgamma", special.lgamma, "Logarithm of |gamma(x)|."),
    _float("log", np.log, "Natural logarithm."),
    _float("log10", np.log10, "Logarithm to base 10."),
    _float("log1p", np.log1p, "log(1 + x), accurate near 0."),
    _float("log2", np.log2, "Logarithm to base 2."),
    _float(
        "reciprocal",
        lambda x: 1 / x,
        "1 / x, correctly rounded.",
        Spelling(((DataType.Double, "(1.0 / {0})"), (DataType.Float, "(1.0f / {0})"))),
    ),
    _float("rsqrt", lambda x: 1 / np.sqrt(x), "1 / sqrt(x)."),
    _float("sigmoid", _sigmoid, "1 / (1 + exp(-x)).", _SIGMOID, ("divide_full",)),
    _float(
        "silu",
        _silu,
        "x * sigmoid(x); integers, which PyTorch refuses, give Float as sigmoid does.",
        spelled("ws_silu({0})", *FLOATS),
        ("silu",),
    ),
    _float("sin", np.sin, "Sine of radians."),
    _float("sinh", np.sinh, "Hyperbolic sine."),
    _float("sqrt", np.sqrt, "Square root, correctly rounded."),
    _float("tan", np.tan, "Tangent of radians."),
    _float("tanh", np.tanh, "Hyperbolic tangent.", spelled("ws_tanh({0})", *FLOATS), ("tanh",)),
)
