"""Sums of products as sm_90 forms them, in exact rationals."""

import math
from collections.abc import Sequence
from fractions import Fraction

LEAST = {"f16": -14, "e5m2": -14, "e4m3": -6, "bf16": -126, "tf32": -126, "f32": -126}


def exponent(value: float, least: int) -> int:
    return max(math.frexp(value)[1] - 1, least)


def toward_zero(value: Fraction, unit: Fraction) -> Fraction:
    return math.trunc(value / unit) * unit


def hardware_sum(
    pairs: Sequence[tuple[float, float]], c: float, *, least: int, fraction: int = 25
) -> float:
    """One step into a float: align to the greatest exponent, cut, add, truncate."""
    exponents = [exponent(a, least) + exponent(b, least) for a, b in pairs if a and b]
    exponents += [exponent(c, LEAST["f32"])] if c else []
    if not exponents:
        return 0.0
    unit = Fraction(2) ** (max(exponents) - fraction)
    total = toward_zero(Fraction(c), unit)
    for a, b in pairs:
        total += toward_zero(Fraction(a) * Fraction(b), unit)
    if not total:
        return 0.0
    top = math.floor(math.log2(abs(total)))
    while Fraction(2) ** top > abs(total):
        top -= 1
    while Fraction(2) ** (top + 1) <= abs(total):
        top += 1
    kept = min(fraction, 23)
    return float(toward_zero(total, Fraction(2) ** (max(top, -126) - kept)))
