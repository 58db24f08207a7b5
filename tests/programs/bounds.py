"""Arrays with a bound on what rounding may have done to each element.

Floats are held in float64 next to `error`: the kernel's value lies within `value - error` and
`value + error`, and infinity says that nothing is known of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from warpsmith.ir.dtypes import DataType

UNIT = {
    DataType.Double: 2.0**-53,
    DataType.Float: 2.0**-24,
    DataType.Half: 2.0**-11,
    DataType.BFloat16: 2.0**-8,
    DataType.Float8_e4m3fn: 2.0**-4,
    DataType.Float8_e5m2: 2.0**-3,
}
"""Half a unit in the last place, relative."""

SMALLEST = {
    DataType.Double: 2.0**-1022,
    DataType.Float: 2.0**-126,
    DataType.Half: 2.0**-24,
    DataType.BFloat16: 2.0**-126,
    DataType.Float8_e4m3fn: 2.0**-9,
    DataType.Float8_e5m2: 2.0**-16,
}
"""What may be lost beside zero: a subnormal number, or all of them where functions flush them."""

LARGEST = {
    DataType.Double: 1.7e308,
    DataType.Float: 3.4e38,
    DataType.Half: 65504.0,
    DataType.BFloat16: 3.38e38,
    DataType.Float8_e4m3fn: 448.0,
    DataType.Float8_e5m2: 57344.0,
}

_NUMPY = {
    DataType.Double: np.float64,
    DataType.Float: np.float32,
    DataType.Half: np.float16,
    DataType.BFloat16: ml_dtypes.bfloat16,
    DataType.Float8_e4m3fn: ml_dtypes.float8_e4m3fn,
    DataType.Float8_e5m2: ml_dtypes.float8_e5m2,
    DataType.Int: np.int64,
    DataType.Int32: np.int32,
    DataType.Int16: np.int16,
    DataType.Int8: np.int8,
    DataType.UInt8: np.uint8,
    DataType.Bool: np.bool_,
}

_LOOSE = 0.05
"""An error beyond this share of an element, and of the array's typical size, says too little."""


@dataclass(frozen=True, slots=True)
class Bounded:
    """Values of a type with their errors: float64, infinite where unknown, 0 for exact ones."""

    dtype: DataType
    value: np.ndarray
    error: np.ndarray

    @property
    def unknown(self) -> np.ndarray:
        return np.isinf(self.error)

    def moved(self, move: Callable[[np.ndarray], np.ndarray]) -> Bounded:
        """The same move of the values and of their errors."""
        return Bounded(self.dtype, move(self.value), move(self.error))


def exact(dtype: DataType, array: np.ndarray) -> Bounded:
    """Values as they are."""
    held = array.astype(np.float64) if dtype.is_float else np.asarray(array, _NUMPY[dtype])
    return Bounded(dtype, held, np.zeros(held.shape))


def wrapped(x: Bounded, dtype: DataType) -> Bounded:
    """Integers as a type of fewer bits holds them."""
    return Bounded(dtype, x.value.astype(_NUMPY[dtype]), x.error)


def rounded(dtype: DataType, array: np.ndarray) -> np.ndarray:
    """The float64 values of an array that was rounded to a float type."""
    with np.errstate(all="ignore"):
        return array.astype(_NUMPY[dtype]).astype(np.float64)


def settled(dtype: DataType, value: np.ndarray, error: np.ndarray) -> Bounded:
    """Floats whose error says too little, or that come near the type's range, become unknown.

    Infinities and NaNs in `value` are known unless `error` is infinite: they are what IEEE gives.
    """
    error = np.where(np.isfinite(value), error, np.where(np.isinf(error), np.inf, 0.0))
    error = np.where(np.isnan(error), np.inf, error)
    size = np.abs(value)
    known = np.isfinite(size) & np.isfinite(error) & (size < 1e150)
    typical = np.sqrt(np.mean(np.square(size[known]))) if known.any() else 0.0
    wide = error > _LOOSE * np.maximum(size, typical) + SMALLEST[dtype]
    huge = np.isfinite(size) & (np.maximum(size, error) > LARGEST[dtype] / 16)
    return Bounded(dtype, value, np.where(wide | huge, np.inf, error))


def converted(x: Bounded, dtype: DataType) -> Bounded:
    """`x` in another type, as a cast rounds it."""
    if x.dtype is dtype:
        return x
    with np.errstate(all="ignore"):
        if dtype is DataType.Bool:
            doubtful = (np.abs(x.value) <= x.error) & (x.error > 0) if x.dtype.is_float else False
            return Bounded(dtype, x.value != 0, np.where(doubtful | x.unknown, np.inf, 0.0))
        if dtype.is_float:
            return _to_float(x, dtype)
        if not x.dtype.is_float:
            return wrapped(x, dtype)
        limits = np.iinfo(_NUMPY[dtype])
        inside = (x.value > float(limits.min)) & (x.value < float(limits.max))
        whole = np.trunc(np.where(inside, x.value, 0.0))
        steady = inside & ~x.unknown
        for end in (x.value - x.error, x.value + x.error):
            steady &= np.trunc(end) == whole
        return Bounded(dtype, whole.astype(_NUMPY[dtype]), np.where(steady, 0.0, np.inf))


def _to_float(x: Bounded, dtype: DataType) -> Bounded:
    source = x.value.astype(np.float64)
    if x.dtype.is_float and UNIT[x.dtype] >= UNIT[dtype] and not x.dtype.is_half:
        return Bounded(dtype, source, x.error)
    middle = rounded(dtype, source)
    # What is rounded twice, by way of Float, may land on the other side of a tie.
    error = np.maximum(x.error, np.where(dtype.is_half, 2.0**-24, 0.0) * np.abs(source))
    error = np.where(x.dtype is DataType.Double, error, x.error)
    ends = [rounded(dtype, source - error), rounded(dtype, source + error)]
    spread = np.maximum(*(np.where(end == middle, 0.0, np.abs(end - middle)) for end in ends))
    over = np.isinf(middle) & np.isfinite(source)
    return settled(dtype, middle, np.where(over | x.unknown, np.inf, spread))


def _most_equal(values: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """How many elements along axes are one number: their roundings may all go the same way; zeros
    have none.
    """
    numbers = np.where(values == 0, np.nan, values)  # NaNs are not equal
    last = np.moveaxis(numbers, axes, range(-len(axes), 0))
    kept = last.shape[: values.ndim - len(axes)]
    rows = np.sort(last.reshape(*kept, math.prod(last.shape[len(kept) :])), -1)
    if not rows.size:
        return np.zeros(kept, np.int64)
    places = np.arange(rows.shape[-1])
    begins = np.ones(rows.shape, bool)
    begins[..., 1:] = rows[..., 1:] != rows[..., :-1]
    since = np.maximum.accumulate(np.where(begins, places, 0), -1)
    return np.asarray((places - since).max(-1) + 1)


def summed(x: Bounded, axes: tuple[int, ...], dtype: DataType) -> Bounded:
    """The sum over axes in any order, in a float type."""
    count = int(np.prod([x.value.shape[d] for d in axes], dtype=np.int64))
    with np.errstate(all="ignore"):
        value = x.value.sum(axes)
        size = np.where(np.isfinite(x.value), np.abs(x.value), 0.0).sum(axes)
        steps = np.maximum(_most_equal(x.value, axes), np.sqrt(count))
        error = x.error.sum(axes) + (4 + 4 * steps) * UNIT[dtype] * size
    far = np.isfinite(value) & (size > LARGEST[dtype] / 8)
    return settled(dtype, value, np.where(far, np.inf, error + SMALLEST[dtype]))


def accumulated(x: Bounded, axis: int, dtype: DataType, *, exclusive: bool) -> Bounded:
    """Sums of all elements up to each along an axis, in any grouping, in a float type."""
    count = np.arange(x.value.shape[axis]).reshape(
        [-1 if d == axis else 1 for d in range(x.value.ndim)]
    )

    def before(array: np.ndarray) -> np.ndarray:
        found = np.cumsum(array, axis)
        if not exclusive:
            return found
        head = np.zeros_like(np.take(found, [0], axis)) if found.shape[axis] else found
        return np.concatenate([head, np.take(found, range(found.shape[axis] - 1), axis)], axis)

    with np.errstate(all="ignore"):
        value = before(x.value)
        size = before(np.where(np.isfinite(x.value), np.abs(x.value), 0.0))
        equal = np.expand_dims(_most_equal(x.value, (axis,)), axis)
        steps = np.maximum(np.minimum(equal, count), np.sqrt(count))
        error = before(x.error) + (8 + 4 * steps) * UNIT[dtype] * size
    far = np.isfinite(value) & (size > LARGEST[dtype] / 8)
    return settled(dtype, value, np.where(far, np.inf, error + SMALLEST[dtype]))


def log_of_exponentials(x: Bounded, axes: tuple[int, ...], dtype: DataType) -> Bounded:
    """log(sum(exp(x))) over axes, in a float type: errors of exponents are those of the result."""
    count = int(np.prod([x.value.shape[d] for d in axes], dtype=np.int64))
    with np.errstate(all="ignore"):
        top = x.value.max(axes, initial=-np.inf, keepdims=True)
        safe = np.where(np.isfinite(top), top, 0.0)
        value = np.log(np.exp(x.value - safe).sum(axes)) + safe.reshape(x.value.sum(axes).shape)
        spread = np.where(np.isfinite(x.value), np.abs(x.value - safe), 0.0).max(axes, initial=0.0)
        error = x.error.max(axes, initial=0.0)
        error = error + UNIT[dtype] * (16 + 4 * np.sqrt(count) + 4 * spread + 4 * np.abs(value))
    return settled(dtype, value, np.where(np.isfinite(value), error, 0.0))


def place_of_extreme(x: Bounded, axis: int, *, largest: bool) -> Bounded:
    """Where the extreme is first along an axis; unknown where errors could move it."""
    sure = (x.error == 0).all(axis)
    value = x.value.astype(np.int64) if x.value.dtype.kind == "b" else x.value
    value = value if largest else -value
    if value.dtype.kind == "f":
        sure |= np.isnan(value).any(axis) & (x.error < np.inf).all(axis)
    return Bounded(DataType.Int, np.argmax(value, axis), np.where(sure, 0.0, np.inf))


def multiplied(x: Bounded, axes: tuple[int, ...], dtype: DataType) -> Bounded:
    """The product over axes in any order, in a float type."""
    count = int(np.prod([x.value.shape[d] for d in axes], dtype=np.int64))
    with np.errstate(all="ignore"):
        value = x.value.prod(axes)
        size = np.abs(x.value)
        outer = (size + x.error).prod(axes)
        high, low = np.maximum(size, 1.0).prod(axes), np.minimum(size, 1.0).prod(axes)
        error = outer - size.prod(axes) + 2 * count * UNIT[dtype] * outer
        odd = ~np.isfinite(x.value).all(axes) | (high > LARGEST[dtype] / 8)
        odd |= (low < 1e3 * SMALLEST[dtype]) & ~((x.value == 0) & (x.error == 0)).any(axes)
    return settled(dtype, value, np.where(odd, np.inf, error + SMALLEST[dtype]))


def extreme(x: Bounded, axes: tuple[int, ...], *, largest: bool) -> Bounded:
    """The maximum or the minimum over axes; of nothing, the type's lowest or highest value."""
    sign = 1 if largest else -1
    kind = x.value.dtype
    if kind.kind == "b":
        reduced = x.value.any(axes) if largest else x.value.all(axes)
        return Bounded(x.dtype, reduced, x.error.sum(axes))
    if kind.kind == "f":
        nothing: float = -sign * np.inf
    else:
        nothing = int(np.iinfo(kind).min if largest else np.iinfo(kind).max)
    reduce = np.max if largest else np.min
    with np.errstate(all="ignore"):
        value = np.asarray(reduce(x.value, axes, initial=nothing))
        error = np.where(np.isnan(x.value), 0.0, x.error)
        if not error.any() or not x.dtype.is_float:
            return Bounded(x.dtype, value, error.sum(axes))
        above = np.asarray(reduce(x.value + sign * error, axes, initial=nothing))
        below = np.asarray(reduce(x.value - sign * error, axes, initial=nothing))
        spread = np.maximum(np.abs(above - value), np.abs(value - below))
    return settled(x.dtype, value, np.where(np.isnan(spread), error.sum(axes), spread))


def contracted(
    equation: str, a: Bounded, b: Bounded, dtype: DataType, terms: int, unit: float = 0.0
) -> Bounded:
    """The sums of products of an einsum equation, added up in a float type.

    Args:
        unit: relative, of what may be lost of a factor or a sum beside that.
    """
    with np.errstate(all="ignore"):
        value = np.einsum(equation, a.value, b.value)
        parts = [np.where(np.isfinite(x.value), np.abs(x.value), 0.0) for x in (a, b)]
        errors = [np.where(x.unknown, 0.0, x.error) for x in (a, b)]
        size = np.einsum(equation, *parts)
        error = np.einsum(equation, parts[0] + errors[0], parts[1] + errors[1]) - size
        error = np.maximum(error, 0.0) + (4 + 4 * np.sqrt(terms)) * (UNIT[dtype] + unit) * size
        lost = [x.unknown.astype(float) for x in (a, b)]
        everywhere = [np.ones(x.value.shape) for x in (a, b)]
        unknown = np.einsum(equation, lost[0], everywhere[1]) > 0
        unknown |= np.einsum(equation, everywhere[0], lost[1]) > 0
        unknown |= np.isfinite(value) & (size > LARGEST[dtype] / 8)
        endless = [np.isinf(x.value).astype(float) for x in (a, b)]
        perhaps_0 = [((np.abs(x.value) <= x.error) & (x.error > 0)).astype(float) for x in (a, b)]
        unknown |= np.einsum(equation, endless[0], perhaps_0[1]) > 0  # infinite, or no number
        unknown |= np.einsum(equation, perhaps_0[0], endless[1]) > 0
    return settled(dtype, value, np.where(unknown, np.inf, error + SMALLEST[dtype]))


def contracted_whole(equation: str, a: Bounded, b: Bounded, dtype: DataType) -> Bounded:
    """The same of integers, which wrap; nothing is known of what is made of uncertain ones."""
    value = np.einsum(equation, *(x.value.astype(np.int64) for x in (a, b)))
    doubtful = [(x.error > 0).astype(float) for x in (a, b)]
    everywhere = [np.ones(x.value.shape) for x in (a, b)]
    lost = np.einsum(equation, doubtful[0], everywhere[1])
    lost = lost + np.einsum(equation, everywhere[0], doubtful[1])
    return Bounded(dtype, value.astype(_NUMPY[dtype]), np.where(lost > 0, np.inf, 0.0))
