"""Bounds of functions, each evaluated at the ends of its operands' intervals as well.

So no derivatives are written down; where an interval is so wide that this could mislead, the
element counts as unknown.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from tests.programs.bounds import SMALLEST, UNIT, Bounded, settled
from warpsmith.ir.dtypes import DataType

_MARGIN = 1.5
"""Of a function's change between the ends of an interval and its middle, for what lies between."""


def sampled(
    function: Callable[..., np.ndarray],
    dtype: DataType,
    operands: Sequence[Bounded],
    *,
    ulps: float,
    extra: np.ndarray | float = 0.0,
) -> Bounded:
    """A float function of floats, each result within `ulps` halves of units in the last place.

    Args:
        dtype: the type it is computed in.
        extra: further error, absolute.
    """
    middle, spread, same = _samples(function, operands)
    error = _MARGIN * spread + extra
    if ulps:
        error = error + (ulps * UNIT[dtype]) * np.abs(middle) + SMALLEST[dtype]
    return settled(dtype, middle, np.where(same, error, np.inf))


def decided(function: Callable[..., np.ndarray], operands: Sequence[Bounded]) -> Bounded:
    """A bool function of anything; unknown where the operands' errors could turn it."""
    middle, spread, same = _samples(function, operands)
    return Bounded(DataType.Bool, middle, np.where(same & (spread == 0), 0.0, np.inf))


def _samples(
    function: Callable[..., np.ndarray], operands: Sequence[Bounded]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values in the middle, how far others lie from them, and where these are of one kind."""
    with np.errstate(all="ignore"):
        middle = np.asarray(function(*(x.value for x in operands)))
        known = np.ones(middle.shape, bool)
        for x in operands:
            known &= ~x.unknown
        spread, same = np.zeros(middle.shape), known
        for points in _points(operands):
            found = np.asarray(function(*points))
            if middle.dtype == bool:
                spread = np.maximum(spread, found != middle)
                continue
            both_nan = np.isnan(found) & np.isnan(middle)
            equal = (found == middle) | both_nan
            difference = np.where(equal, 0.0, np.abs(found - middle))
            same = same & (equal | (np.isfinite(found) & np.isfinite(middle)))
            spread = np.maximum(spread, np.where(np.isfinite(difference), difference, 0.0))
    return middle, spread, same


def _points(operands: Sequence[Bounded]) -> list[list[np.ndarray]]:
    """Corners of the operands' intervals, their half-way points, and other signs of zeros and NaNs.

    No one says which sign a computed NaN has: inf - inf has one on x86-64 and none on a GPU, and
    PTX's neg yields an unspecified NaN.
    """
    errors = [np.where(x.unknown, 0.0, x.error) for x in operands]
    wide = [k for k, error in enumerate(errors) if error.any()]
    points = []
    for signs in itertools.product((-1.0, 1.0), repeat=len(wide)) if wide else ():
        moved = dict(zip(wide, signs, strict=True))
        points.append(
            [
                x.value + moved[k] * errors[k] if k in moved else x.value
                for k, x in enumerate(operands)
            ]
        )
    for k in wide:
        for share in (-0.5, 0.5):
            points.append(
                [x.value + share * errors[k] if j == k else x.value for j, x in enumerate(operands)]
            )
    for k, x in enumerate(operands):
        if not x.dtype.is_float:
            continue
        signless = (x.value == 0) | np.isnan(x.value)
        if signless.any():
            turned = np.where(signless, -x.value, x.value)
            points.append([turned if j == k else y.value for j, y in enumerate(operands)])
    return points
