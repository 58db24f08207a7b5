"""Random programs of rows with their meaning, for the long run of `bench.soak`.

Each is written in warpsmith's operations, and in those of NumPy and PyTorch: results on a device
are held against float64 there. What NumPy's arrays leave in the C heap, up to 64 MiB for each
thread, would be taken for warpsmith's.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import warpsmith
from warpsmith import DataType, ops

Step = tuple[str, int, int]
"""An operation, and which of the values so far it takes."""
Both = tuple[Callable[..., Any], Callable[..., Any]]
"""The same in warpsmith's operations, and in the arrays' library, NumPy or PyTorch."""

TOLERANCE = 2e-3
"""Of a result's largest element: programs are a few steps of float, none of which amplifies."""

POINTWISE: Mapping[str, Both] = {
    "add": (lambda a, b: a + b, lambda a, b: a + b),
    "mul": (lambda a, b: _ours(a).tanh(a) * b, lambda a, b: _of(a).tanh(a) * b),
    "mix": (lambda a, b: 0.5 * a - 0.25 * b, lambda a, b: 0.5 * a - 0.25 * b),
    "relu": (lambda a, b: _ours(a).relu(a), lambda a, b: a.clip(min=0)),
    "gate": (lambda a, b: _ours(a).sigmoid(a) * b, lambda a, b: b / (1 + _of(a).exp(-a))),
}
ROWS: Mapping[str, Both] = {
    "centre": (lambda a, b: a - _mean(a), lambda a, b: a - a.mean(-1, keepdims=True)),
    "norm": (
        lambda a, b: a * _ours(a).rsqrt(_mean(a * a) + 1.0) + b,
        lambda a, b: a / _of(a).sqrt((a * a).mean(-1, keepdims=True) + 1) + b,
    ),
    "peak": (
        lambda a, b: a - 0.5 * _ours(b).max(b, [-1], keepdim=True),
        lambda a, b: a - 0.5 * _of(b).amax(b, -1, keepdims=True),
    ),
}
ENDS: Mapping[str, Both] = {
    "all": (lambda a: a, lambda a: a),
    "rows": (lambda a: _ours(a).mean(a, [-1]), lambda a: a.mean(-1)),
    "columns": (lambda a: _ours(a).mean(a, [0]), lambda a: a.mean(0)),
    "both": (lambda a: (a, _ours(a).mean(a, [0])), lambda a: (a, a.mean(0))),
    "product": (lambda a: _gram(a, DataType.Float), lambda a: _exact_gram(a)),
    "fast": (lambda a: _gram(a, DataType.Half), lambda a: _exact_gram(a)),
}
STEPS = {**POINTWISE, **ROWS}


def _ours(value: Any) -> Any:
    """The operations of a program that is being defined: `warpsmith.ops`, or those it brings."""
    return value if hasattr(value, "by") else ops


def _mean(a: Any) -> Any:
    return _ours(a).mean(a, [-1], keepdim=True)


def _gram(a: Any, dtype: DataType) -> Any:
    """The mean of products of rows, of values of a type."""
    rounded = _ours(a).cast(a, dtype)
    sums = _ours(rounded).matmul(
        rounded, _ours(rounded).transpose(rounded, 0, 1), dtype=DataType.Float
    )
    return sums / a.shape()[1]


def _exact_gram(a: Any) -> Any:
    """The same; by NumPy in float32, which is exact enough, and takes it a tenth of the time."""
    rows = a.astype(np.float32) if isinstance(a, np.ndarray) else a
    return rows @ rows.T / a.shape[1]


def _of(array: Any) -> Any:
    """The library of an array: NumPy, or PyTorch."""
    return np if isinstance(array, np.ndarray) else sys.modules["torch"]


@dataclass(frozen=True, slots=True)
class Program:
    """A random program of two arguments: `x [rows, columns]`, and `y` like it or one row."""

    steps: tuple[Step, ...]
    end: str
    one_row: bool

    def __call__(self, x: Any, y: Any, *, which: int) -> Any:
        """The results of warpsmith's operations, `which` 0, or of the arrays' library, 1."""
        values = [x, y + 0.0 * x]
        for name, first, second in self.steps:
            values.append(STEPS[name][which](values[first], values[second]))
        return ENDS[self.end][which](values[-1])

    @property
    def fused(self) -> Callable[[Any, Any], Any]:
        return warpsmith.fuse(lambda x, y: self(x, y, which=0))


def drawn(random_: random.Random) -> Program:
    """A program of 2 to 8 steps, at most two of them over rows."""
    steps: list[Step] = []
    names = [random_.choice(list(POINTWISE)) for _ in range(random_.randint(2, 6))]
    for _ in range(random_.randint(0, 2)):
        names.insert(random_.randrange(len(names) + 1), random_.choice(list(ROWS)))
    for number, name in enumerate(names):
        steps.append((name, number + 1, random_.randrange(number + 2)))
    return Program(tuple(steps), random_.choice(list(ENDS)), random_.random() < 0.5)


def check(program: Program, given: Sequence[Any], results: Any) -> None:
    """Hold results against float64, where they are; raises AssertionError for one that is wrong."""
    exact = program(*map(_double, given), which=1)
    pairs = zip(_several(results), _several(exact), strict=True)
    for position, (got, wanted) in enumerate(pairs):
        found = _double(got)
        assert found.shape == wanted.shape, (found.shape, wanted.shape)
        error = float(abs(found - wanted).max())
        scale = max(float(abs(wanted).max()), 1.0)
        assert error <= TOLERANCE * scale, (
            f"result {position} of {tuple(given[0].shape)} is off by {error:.3g} of {scale:.3g}"
        )


def _double(array: Any) -> Any:
    """As float64: on the device where it is there."""
    return array.double() if hasattr(array, "double") else np.asarray(array, np.float64)


def _several(results: Any) -> tuple[Any, ...]:
    return tuple(results) if isinstance(results, tuple | list) else (results,)
