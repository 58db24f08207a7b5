"""Bounds of integers, by the bounds of what they are computed from."""

from __future__ import annotations

import math
from collections.abc import Callable

Range = tuple[float, float]
"""The least and the largest value of an integer."""

ANY: Range = (-math.inf, math.inf)


def _sum(*terms: Range) -> Range:
    return sum(low for low, _ in terms), sum(high for _, high in terms)


def _product(*factors: Range) -> Range:
    low, high = factors[0]
    for a, b in factors[1:]:
        if low >= 0 and a >= 0:
            low, high = _times(low, a), _times(high, b)
            continue
        corners = [_times(x, y) for x in (low, high) for y in (a, b)]
        low, high = min(corners), max(corners)
    return low, high


def _times(a: float, b: float) -> float:
    return 0 if a == 0 or b == 0 else a * b


def _quotient(a: Range, b: Range, *rest: Range) -> Range:
    if b[0] < 1 or math.inf in (abs(a[0]), abs(a[1]), b[1]):
        return ANY
    corners = [x // y for x in a for y in b]
    return min(corners), max(corners)


def _raised_quotient(a: Range, b: Range) -> Range:
    low, high = _quotient((-a[1], -a[0]), b)
    return -high, -low


def _remainder(a: Range, b: Range) -> Range:
    if b[0] != b[1] or b[0] < 1:
        return ANY
    if math.inf not in (abs(a[0]), abs(a[1])) and a[0] // b[0] == a[1] // b[0]:
        return a[0] % b[0], a[1] % b[0]
    return 0, b[0] - 1


def _less(a: Range, b: Range) -> Range:
    return int(a[1] < b[0]), int(a[0] < b[1])


def _at_most(a: Range, b: Range) -> Range:
    return int(a[1] <= b[0]), int(a[0] <= b[1])


def _equal(a: Range, b: Range) -> Range:
    return int(a[0] == a[1] == b[0] == b[1]), int(a[0] <= b[1] and b[0] <= a[1])


def _both_of(*sides: Range) -> Range:
    return int(all(_holds(side) for side in sides)), int(not any(side == (0, 0) for side in sides))


def _one_of(*sides: Range) -> Range:
    return int(any(_holds(side) for side in sides)), int(any(side != (0, 0) for side in sides))


def _holds(side: Range) -> bool:
    """Whether it is never 0."""
    return side[0] > 0 or side[1] < 0


def _chosen(condition: Range, a: Range, b: Range) -> Range:
    if condition == (0, 0):
        return b
    return a if _holds(condition) else (min(a[0], b[0]), max(a[1], b[1]))


RANGES: dict[str, Callable[..., Range]] = {
    "cast": lambda a: a,
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "add": _sum,
    "mul": _product,
    "floordiv": _quotient,
    "divide": _quotient,
    "ceildiv": _raised_quotient,
    "mod": _remainder,
    "where": _chosen,
    "minimum": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "maximum": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "lt": _less,
    "le": _at_most,
    "eq": _equal,
    "logical_and": _both_of,
    "logical_or": _one_of,
}
"""Bounds of operations, given those of their operands."""
