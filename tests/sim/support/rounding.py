"""Floats of any format by exact rational arithmetic: the reference for rounding."""

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from warpsmith.sim.isa import Round

NUMBER, INFINITE, NOT_A_NUMBER = "number", "infinite", "nan"


@dataclass(frozen=True, slots=True)
class Format:
    """A binary float format."""

    exponent: int
    fraction: int

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def sign(self) -> int:
        return 1 << (self.exponent + self.fraction)

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.fraction

    @property
    def least_normal(self) -> Fraction:
        return power(1 - self.bias)

    def kind(self, bits: int) -> str:
        """Number, infinite or nan."""
        magnitude = bits & ~self.sign
        if magnitude < self.infinity:
            return NUMBER
        return INFINITE if magnitude == self.infinity else NOT_A_NUMBER

    def value(self, bits: int) -> Fraction:
        """The number of finite bits; zeros lose their sign."""
        field = (bits & ~self.sign) >> self.fraction
        fraction = bits & ((1 << self.fraction) - 1)
        if field:
            fraction |= 1 << self.fraction
        magnitude = fraction * power(max(field, 1) - self.bias - self.fraction)
        return -magnitude if bits & self.sign else magnitude

    def flush(self, bits: int) -> int:
        """`.ftz` of bits."""
        return bits if bits & self.infinity else bits & self.sign

    def round(self, value: Fraction, mode: Round, negative_zero: bool = False) -> int:
        """The bits of a value; `negative_zero` says which zero an exact zero is."""
        sign = self.sign if value < 0 or (value == 0 and negative_zero) else 0
        magnitude = abs(value)
        if magnitude == 0:
            return sign
        exponent = max(floor_log2(magnitude), 1 - self.bias)
        scaled = magnitude / power(exponent - self.fraction)
        whole = scaled.numerator // scaled.denominator
        rest = scaled - whole
        if goes_up(mode, rest, whole, sign != 0):
            whole += 1
        bits = ((exponent + self.bias - 1) << self.fraction) + whole
        if bits < self.infinity:
            return sign | bits
        inwards = mode is Round.RZ or (mode is Round.RM and not sign) or (mode is Round.RP and sign)
        return sign | (self.infinity - 1 if inwards else self.infinity)

    def root(self, value: Fraction, mode: Round) -> int:
        """The bits of the square root of a positive value."""
        shift = 2 * (self.bias + 2 * self.fraction)
        scaled = value * power(2 * shift)
        assert scaled.denominator == 1
        whole = isqrt(scaled.numerator)
        # A last bit far below any that matters says that the root is not exact.
        exact = whole * whole == scaled.numerator
        near = Fraction(2 * whole + (0 if exact else 1), 2)
        return self.round(near * power(-shift), mode)


def goes_up(mode: Round, rest: Fraction, whole: int, negative: bool) -> bool:
    """Whether a magnitude is rounded away from zero."""
    half = Fraction(1, 2)
    if mode is Round.RN:
        return rest > half or (rest == half and whole % 2 == 1)
    if mode is Round.RNA:
        return rest >= half
    if mode is Round.RZ or rest == 0:
        return False
    return negative == (mode is Round.RM)


def power(exponent: int) -> Fraction:
    """Two to an exponent."""
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def floor_log2(value: Fraction) -> int:
    """The exponent of a positive value."""
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if power(guess) <= value else guess - 1


F16 = Format(5, 10)
BF16 = Format(8, 7)
F32 = Format(8, 23)
F64 = Format(11, 52)
TF32 = Format(8, 10)
