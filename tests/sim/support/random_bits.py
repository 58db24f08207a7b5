"""Random bits that are the same on every machine and with every NumPy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Item = TypeVar("Item")
Words = npt.NDArray[np.uint64]
Shape = tuple[int, ...]


class Bits:
    """A stream of numbers from a seed."""

    def __init__(self, seed: int) -> None:
        self._source = np.random.PCG64(seed)

    def _words(self, count: int) -> Words:
        return self._source.random_raw(count).astype(np.uint64)

    def array(self, limit: int, shape: Shape) -> npt.NDArray[np.int64]:
        """Numbers below `limit`."""
        values = (self._words(int(np.prod(shape))) >> np.uint64(11)) % np.uint64(limit)
        return values.reshape(shape).astype(np.int64)

    def below(self, limit: int) -> int:
        return int(self.array(limit, (1,))[0])

    def between(self, low: int, high: int) -> int:
        return low + self.below(high - low + 1)

    def choice(self, options: Sequence[Item]) -> Item:
        return options[self.below(len(options))]

    def bytes(self, count: int) -> npt.NDArray[np.uint8]:
        return self._words((count + 7) // 8).view(np.uint8)[:count].copy()


@dataclass(frozen=True, slots=True)
class Format:
    """A float format: the bits of its fields, and how far it lies above the low end."""

    exponent: int
    mantissa: int
    shift: int = 0
    has_infinity: bool = True


FORMATS = {
    "f16": Format(5, 10),
    "bf16": Format(8, 7),
    "tf32": Format(8, 10, shift=13),
    "f32": Format(8, 23),
    "e4m3": Format(4, 3, has_infinity=False),
    "e5m2": Format(5, 2),
    "f64": Format(11, 52),
}


@dataclass(frozen=True, slots=True)
class Style:
    """Which numbers: exponents within `spread` of `center`, shares of zeros and of inf and NaN."""

    spread: int
    center: int = 0
    zeros: float = 0
    specials: float = 0


def floats(bits: Bits, name: str, shape: Shape, style: Style) -> Words:
    """Numbers of a format as bits; extreme mantissas are frequent, subnormal numbers appear."""
    of = FORMATS[name]
    top = 1 << of.exponent
    sign = bits.array(2, shape) << (of.exponent + of.mantissa)
    middle = top // 2 - 1 + style.center
    exponent = middle + bits.array(2 * style.spread + 1, shape) - style.spread
    exponent = np.clip(exponent, 0, top - 2 if of.has_infinity else top - 1)
    mantissa = bits.array(1 << of.mantissa, shape)
    full = (1 << of.mantissa) - 1
    if not of.has_infinity:
        mantissa = np.where((exponent == top - 1) & (mantissa == full), full - 1, mantissa)
        full -= 1
    extreme = bits.array(4, shape) == 0
    mantissa = np.where(extreme, np.where(bits.array(2, shape) == 0, 0, full), mantissa)
    value = sign | exponent << of.mantissa | mantissa
    if style.zeros:
        value = np.where(bits.array(1000, shape) < style.zeros * 1000, sign, value)
    if style.specials:
        infinity = (top - 1) << of.mantissa
        if not of.has_infinity:
            infinity |= 7
        special = np.where(bits.array(2, shape) == 0, infinity, infinity | 1) | sign
        value = np.where(bits.array(1000, shape) < style.specials * 1000, special, value)
    out = value.astype(np.uint64) << np.uint64(of.shift)
    if of.shift:  # bits that the hardware must ignore
        out |= bits.array(1 << of.shift, shape).astype(np.uint64)
    return out
