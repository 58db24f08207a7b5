"""Functions of complex numbers, by their real and imaginary parts.

Branches lie where PyTorch and C have them. Squares that would overflow are not formed: lengths
follow from quotients, and inverse functions from square roots, after W. Kahan's "Branch cuts for
complex elementary functions".
"""

from __future__ import annotations

import math
from typing import Any

from warpsmith import ops as own
from warpsmith.frontends.nvfuser_direct.pairs import Pair, pair

_PI = math.pi


def neg(z: Pair) -> Pair:
    return pair(own.neg(z.re), own.neg(z.im))


def add(a: Pair, b: Pair) -> Pair:
    return pair(own.add(a.re, b.re), own.add(a.im, b.im))


def sub(a: Pair, b: Pair) -> Pair:
    return pair(own.sub(a.re, b.re), own.sub(a.im, b.im))


def mul(a: Pair, b: Pair) -> Pair:
    re = own.sub(own.mul(a.re, b.re), own.mul(a.im, b.im))
    im = own.add(own.mul(a.re, b.im), own.mul(a.im, b.re))
    return pair(re, im)


def div(a: Pair, b: Pair) -> Pair:
    """`a / b`, of which both are divided by the larger part of `b` first."""
    size = own.maximum(own.abs(b.re), own.abs(b.im))
    re, im = own.truediv(b.re, size), own.truediv(b.im, size)
    rest = own.add(own.mul(re, re), own.mul(im, im))
    scaled = Pair(own.truediv(a.re, size), own.truediv(a.im, size))
    over = mul(scaled, Pair(re, own.neg(im)))
    return pair(own.truediv(over.re, rest), own.truediv(over.im, rest))


def reciprocal(z: Pair) -> Pair:
    return div(pair(1.0, 0.0), z)


def power(a: Pair, b: Pair) -> Pair:
    """`a ** b`: 1 for an exponent of 0, and 0 for a base of 0."""
    made = exp(mul(b, log(a)))
    is_zero = own.logical_and(own.eq(a.re, 0.0), own.eq(a.im, 0.0))
    is_one = own.logical_and(own.eq(b.re, 0.0), own.eq(b.im, 0.0))
    return choose(is_one, pair(1.0, 0.0), choose(is_zero, pair(0.0, 0.0), made))


def choose(condition: Any, a: Pair, b: Pair) -> Pair:
    """`a` where the condition holds, and `b` elsewhere."""
    return pair(own.where(condition, a.re, b.re), own.where(condition, a.im, b.im))


def absolute(z: Pair) -> Any:
    """The length of a number, which is infinite where one part is."""
    a, b = own.abs(z.re), own.abs(z.im)
    large, small = own.maximum(a, b), own.minimum(a, b)
    over = own.where(own.eq(large, 0.0), 0.0, own.truediv(small, large))
    made = own.mul(large, own.sqrt(own.add(own.mul(over, over), 1.0)))
    return own.where(isinf(z), math.inf, made)


def isinf(z: Pair) -> Any:
    return own.logical_or(own.isinf(z.re), own.isinf(z.im))


def isnan(z: Pair) -> Any:
    return own.logical_or(own.isnan(z.re), own.isnan(z.im))


def isfinite(z: Pair) -> Any:
    return own.logical_and(own.isfinite(z.re), own.isfinite(z.im))


def isreal(z: Pair) -> Any:
    return own.eq(z.im, 0.0)


def equal(a: Pair, b: Pair) -> Any:
    return own.logical_and(own.eq(a.re, b.re), own.eq(a.im, b.im))


def different(a: Pair, b: Pair) -> Any:
    return own.logical_or(own.ne(a.re, b.re), own.ne(a.im, b.im))


def exp(z: Pair) -> Pair:
    """`e ** z`; a real part of minus infinity gives 0, whatever the other is."""
    size = own.exp(z.re)
    re, im = own.mul(size, own.cos(z.im)), own.mul(size, own.sin(z.im))
    vanishes = own.eq(z.re, -math.inf)
    return pair(own.where(vanishes, 0.0, re), _unless_zero(z.im, own.where(vanishes, 0.0, im)))


def log(z: Pair) -> Pair:
    """The logarithm whose imaginary part lies between minus pi and pi."""
    a, b = own.abs(z.re), own.abs(z.im)
    large, small = own.maximum(a, b), own.minimum(a, b)
    over = own.where(own.eq(large, 0.0), 0.0, own.truediv(small, large))
    made = own.add(own.log(large), own.mul(own.log1p(own.mul(over, over)), 0.5))
    return pair(own.where(isinf(z), math.inf, made), own.atan2(z.im, z.re))


def exp2(z: Pair) -> Pair:
    return exp(_times(z, math.log(2)))


def expm1(z: Pair) -> Pair:
    """`e ** z - 1`; nothing cancels near 0, where `cos(x) - 1` is twice the square of a sine."""
    half = own.sin(own.mul(z.im, 0.5))
    less = own.mul(own.mul(half, half), -2.0)
    re = own.add(own.mul(own.expm1(z.re), own.cos(z.im)), less)
    return pair(re, exp(z).im)


def log2(z: Pair) -> Pair:
    return _times(log(z), 1 / math.log(2))


def log10(z: Pair) -> Pair:
    return _times(log(z), 1 / math.log(10))


def log1p(z: Pair) -> Pair:
    """`log(1 + z)`; near 0 of what the length of `1 + z` is more than 1."""
    more = own.add(own.mul(z.re, own.add(z.re, 2.0)), own.mul(z.im, z.im))
    plus = Pair(own.add(z.re, 1.0), z.im)
    made = log(plus)
    near = own.lt(own.abs(more), 0.5)
    return pair(own.where(near, own.mul(own.log1p(more), 0.5), made.re), made.im)


def _times(z: Pair, factor: float) -> Pair:
    return pair(own.mul(z.re, factor), own.mul(z.im, factor))


def is_nonzero(z: Pair) -> Any:
    return own.logical_or(own.ne(z.re, 0.0), own.ne(z.im, 0.0))


def logical_not(z: Pair) -> Any:
    return own.logical_not(is_nonzero(z))


def logical_and(a: Pair, b: Pair) -> Any:
    return own.logical_and(is_nonzero(a), is_nonzero(b))


def logical_or(a: Pair, b: Pair) -> Any:
    return own.logical_or(is_nonzero(a), is_nonzero(b))


def sqrt(z: Pair) -> Pair:
    """The root whose real part is not negative."""
    a = own.abs(z.re)
    half = own.sqrt(own.add(own.mul(a, 0.5), own.mul(absolute(z), 0.5)))
    other = own.truediv(own.mul(own.abs(z.im), 0.5), half)
    right = own.ge(z.re, 0.0)
    re, im = own.where(right, half, other), own.where(right, other, half)
    is_zero = own.eq(half, 0.0)
    re, im = own.where(is_zero, 0.0, re), own.where(is_zero, 0.0, im)
    up = own.isinf(z.im)
    aside = own.logical_and(own.isinf(z.re), own.isfinite(z.im))  # inf / inf is no number
    re = own.where(aside, own.where(right, math.inf, 0.0), own.where(up, math.inf, re))
    im = own.where(aside, own.where(right, 0.0, math.inf), own.where(up, math.inf, im))
    return pair(re, _signed(im, z.im))


def rsqrt(z: Pair) -> Pair:
    return reciprocal(sqrt(z))


def sin(z: Pair) -> Pair:
    re = _unless_zero(z.re, own.mul(own.sin(z.re), own.cosh(z.im)))
    return pair(re, _unless_zero(z.im, own.mul(own.cos(z.re), own.sinh(z.im))))


def cos(z: Pair) -> Pair:
    im = own.neg(own.mul(own.sin(z.re), own.sinh(z.im)))
    flat = own.logical_or(own.eq(z.re, 0.0), own.eq(z.im, 0.0))
    return pair(own.mul(own.cos(z.re), own.cosh(z.im)), own.where(flat, 0.0, im))


def sinh(z: Pair) -> Pair:
    return _turned_back(sin(_turned(z)))


def cosh(z: Pair) -> Pair:
    return cos(_turned(z))


def tanh(z: Pair) -> Pair:
    """By twice the argument; beyond 20 the real part is 1 but for its sign."""
    real, twice = own.clamp(z.re, -20.0, 20.0), own.mul(z.im, 2.0)
    doubled = own.mul(real, 2.0)
    below = own.add(own.cosh(doubled), own.cos(twice))
    return pair(own.truediv(own.sinh(doubled), below), own.truediv(own.sin(twice), below))


def tan(z: Pair) -> Pair:
    return _turned_back(tanh(_turned(z)))


def sigmoid(z: Pair) -> Pair:
    return reciprocal(add(pair(1.0, 0.0), exp(neg(z))))


def silu(z: Pair) -> Pair:
    return mul(z, sigmoid(z))


def asin(z: Pair) -> Pair:
    minus, plus = _roots(z)
    below = own.sub(own.mul(minus.re, plus.re), own.mul(minus.im, plus.im))
    side = own.sub(own.mul(minus.re, plus.im), own.mul(minus.im, plus.re))
    made = pair(own.atan2(z.re, below), own.asinh(side))
    return choose(_far(z), pair(_signed(_of_type(z, _PI / 4), z.re), z.im), made)


def acos(z: Pair) -> Pair:
    minus, plus = _roots(z)
    side = own.sub(own.mul(plus.re, minus.im), own.mul(plus.im, minus.re))
    angle = own.mul(own.atan2(minus.re, plus.re), 2.0)
    made = pair(own.where(own.isnan(z.re), math.nan, angle), own.asinh(side))
    return choose(_far(z), pair(_quarter(z), own.neg(z.im)), made)


def acosh(z: Pair) -> Pair:
    minus, plus = sqrt(Pair(own.sub(z.re, 1.0), z.im)), sqrt(Pair(own.add(z.re, 1.0), z.im))
    along = own.add(own.mul(minus.re, plus.re), own.mul(minus.im, plus.im))
    angle = own.mul(own.atan2(minus.im, plus.re), 2.0)
    made = pair(own.asinh(along), own.where(own.isnan(z.re), math.nan, angle))
    return choose(_far(z), pair(math.inf, _signed(_quarter(z), z.im)), made)


def asinh(z: Pair) -> Pair:
    return _turned_back(asin(_turned(z)))


def atanh(z: Pair) -> Pair:
    """Nothing but a quarter turn to the side of the imaginary part where one is infinite.

    The real part is computed on the right, where nothing cancels.
    """
    real, square = own.abs(z.re), own.mul(z.im, z.im)
    less = own.sub(1.0, real)
    below = own.add(own.mul(less, less), square)
    re = own.mul(own.log1p(own.truediv(own.mul(real, 4.0), below)), 0.25)
    across = own.sub(own.mul(less, own.add(real, 1.0)), square)
    im = own.mul(own.atan2(own.mul(z.im, 2.0), across), 0.5)
    endless = isinf(z)
    quarter = own.where(own.isnan(z.im), math.nan, _signed(_of_type(z, _PI / 2), z.im))
    re = own.where(endless, 0.0, _signed(re, z.re))
    return pair(re, own.where(endless, quarter, im))


def atan(z: Pair) -> Pair:
    return _turned_back(atanh(_turned(z)))


def _roots(z: Pair) -> tuple[Pair, Pair]:
    """Roots of `1 - z` and `1 + z`, whose imaginary parts keep the sign of zeros."""
    minus = Pair(own.sub(1.0, z.re), own.neg(z.im))
    return sqrt(minus), sqrt(Pair(own.add(1.0, z.re), z.im))


def _turned(z: Pair) -> Pair:
    """`z` times i."""
    return pair(own.neg(z.im), z.re)


def _turned_back(z: Pair) -> Pair:
    """`z` times minus i."""
    return pair(z.im, own.neg(z.re))


def _far(z: Pair) -> Any:
    """Whether both parts are infinite."""
    return own.logical_and(own.isinf(z.re), own.isinf(z.im))


def _quarter(z: Pair) -> Any:
    """The angle of a number both of whose parts are infinite, above the axis."""
    return own.where(own.gt(z.re, 0.0), _of_type(z, _PI / 4), 3 * _PI / 4)


def _of_type(z: Pair, value: float) -> Any:
    """A constant in the type of a number's parts."""
    return own.full_like(z.re, value) if z.is_tensor else value


def _signed(size: Any, like: Any) -> Any:
    """A size with the sign of another number, of zeros too."""
    return own.where(own.signbit(like), own.neg(size), size)


def _unless_zero(part: Any, made: Any) -> Any:
    """What was made, but for parts of 0, which an infinite factor would make no number."""
    return own.where(own.eq(part, 0.0), part, made)
