"""Special functions that NumPy lacks, on arrays, computed in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

_TWO_BY_SQRT_PI = 2.0 / math.sqrt(math.pi)
# Halley's method triples the digits, from about two; the last round only mends roundings.
_ROUNDS = 4
# Where the series of erfcx begins: its ninth term is below a unit in the last place there.
_SERIES = 20.0


def erf(x: np.ndarray) -> np.ndarray:
    """Error function."""
    return _each(math.erf, x)


def erfc(x: np.ndarray) -> np.ndarray:
    """1 - erf(x), without the cancellation."""
    return _each(math.erfc, x)


def erfcx(x: np.ndarray) -> np.ndarray:
    """exp(x * x) * erfc(x), also where a factor overflows or vanishes; +inf below -26.6."""
    y = x.astype(np.float64)
    near = np.clip(y, -27.0, _SERIES)
    product = _exp_of_square(near) * _each(math.erfc, near)
    return np.where(y < _SERIES, product, _erfcx_series(np.maximum(y, _SERIES))).astype(x.dtype)


def lgamma(x: np.ndarray) -> np.ndarray:
    """Logarithm of |gamma(x)|; +inf at zero, at the negative integers and at both infinities."""
    return _each(_lgamma, x)


def erfinv(x: np.ndarray) -> np.ndarray:
    """Inverse of erf: +-inf at +-1, NaN outside [-1, 1]."""
    y = x.astype(np.float64)
    distance = np.abs(y)
    # Beside 1 the distance to 1 decides, and it is exact from one half on; beside 0, y itself.
    tail = _erfc_inverse(1.0 - distance)
    middle = np.where(distance < 0.5, y, 0.0)
    root = _erf_inverse(middle)
    return np.where(distance < 0.5, root, np.copysign(tail, y)).astype(x.dtype)


def erfcinv(x: np.ndarray) -> np.ndarray:
    """Inverse of erfc: +inf at 0, -inf at 2, NaN outside [0, 2].

    Below 1e-300 the result loses digits, since there the derivative of erfc is no normal number.
    """
    y = x.astype(np.float64)
    # Where erfc is near 1, `1 - y` is exact and erf's inverse keeps the relative accuracy near 0.
    near_one = np.abs(y - 1.0) < 0.5
    middle = _erf_inverse(np.where(near_one, 1.0 - y, 0.0))
    above = y > 1.0
    tail = _erfc_inverse(np.where(above, 2.0 - y, y))
    return np.where(near_one, middle, np.where(above, -tail, tail)).astype(x.dtype)


def _exp_of_square(y: np.ndarray) -> np.ndarray:
    """exp(y * y) for |y| < 30: of a square that was rounded it would be off by y * y units."""
    exact = np.rint(y * 2.0**17) * 2.0**-17  # few enough digits for its square
    return np.exp(exact * exact) * np.exp((y - exact) * (y + exact))


def _erfcx_series(y: np.ndarray) -> np.ndarray:
    """erfcx from _SERIES on: 1 - t + 1 3 t^2 - 1 3 5 t^3 ... over y sqrt(pi), for t = 1 / 2 y^2."""
    t = 0.5 / (y * y)
    total = np.ones_like(y)
    for odd in (15, 13, 11, 9, 7, 5, 3, 1):
        total = 1.0 - odd * t * total
    return np.asarray(0.5 * _TWO_BY_SQRT_PI / y * total)


def _erf_inverse(y: np.ndarray) -> np.ndarray:
    """Inverse of erf for |y| <= 0.5."""
    root = y / _TWO_BY_SQRT_PI
    for _ in range(_ROUNDS):
        root = _halley(root, _each(math.erf, root) - y)
    return root


def _erfc_inverse(y: np.ndarray) -> np.ndarray:
    """Inverse of erfc for 0 <= y <= 1; NaN elsewhere."""
    inside = (y > 0.0) & (y <= 1.0)
    safe = np.where(inside, y, 0.5)
    root = _first_guess(safe)
    for _ in range(_ROUNDS):
        root = _halley(root, safe - _each(math.erfc, root))
    return np.where(inside, root, np.where(y == 0.0, np.inf, np.nan))


def _halley(root: np.ndarray, error: np.ndarray) -> np.ndarray:
    """One step of Halley's method, where `error` is erf(root) minus what it should be."""
    step = error / (_TWO_BY_SQRT_PI * np.exp(-root * root))
    improved = root - step / (1.0 + root * step)
    return np.where(np.isfinite(improved), improved, root)


def _first_guess(y: np.ndarray) -> np.ndarray:
    """Inverse of erfc to two digits, for 0 < y <= 1.

    It solves erf(z)^2 = 1 - exp(-z^2 (4/pi + a z^2) / (1 + a z^2)) for z; that holds to 4e-4.
    """
    a = 0.147
    logarithm = np.log(y) + np.log(2.0 - y)
    half = 2.0 / (math.pi * a) + 0.5 * logarithm
    return np.asarray(np.sqrt(np.maximum(np.sqrt(half * half - logarithm / a) - half, 0.0)))


def _lgamma(x: float) -> float:
    if math.isinf(x) or (x <= 0.0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


def _each(function: Callable[[float], float], x: np.ndarray) -> np.ndarray:
    """`function` of each element, in float64, rounded to the type of `x`."""
    values = np.fromiter(map(function, x.astype(np.float64).ravel().tolist()), np.float64, x.size)
    return values.reshape(x.shape).astype(x.dtype)
