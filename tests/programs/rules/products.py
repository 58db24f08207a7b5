"""Rules of matrix products."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.programs import bounds
from tests.programs.bounds import UNIT, Bounded
from tests.programs.program import Dim, Program, Shape
from tests.programs.rules.moves import broadcast, expand, moved, transpose
from tests.programs.rules.pointwise import pointwise
from tests.programs.rules.scalars import full
from tests.programs.values import Value, as_tensor, require
from warpsmith.ir.dtypes import DataType

_MOST_HELD = 2**24
"""Elements of an operand with all batches, about 128 MB of float64."""


FLOATS = (DataType.Float, DataType.BFloat16, DataType.Half, DataType.Double)

LOST = {"exact": 0.0, "tf32": 2.0**-10, "fast": 2.0**-12}
"""What a precision may lose of a factor, or of a sum, relative."""


def _product(
    program: Program, equation: str, a: Value, b: Value, dims: Sequence[Dim], precision: str
) -> Value:
    """Operands are read as they were rounded, or not: tensor cores take the rounded ones."""
    require(a.dtype is b.dtype or (a.dtype.is_float8 and b.dtype.is_float8), "types")
    wanted = a.dtype.compute if a.dtype.size == 1 else a.dtype
    given, kept = equation.split("->")
    extents = dict(zip(given.split(",")[0], a.wide.value.shape, strict=True))
    terms = math.prod(extents[letter] for letter in extents if letter not in kept)
    held = math.prod(program.shape(tuple(dims)))
    require(held <= _MOST_HELD, "too large to be computed in float64 here")
    if not a.dtype.is_float:
        whole = bounds.contracted_whole(equation, a.narrow(), b.narrow(), wanted)
        return Value(wanted, tuple(dims), whole)
    parts = [_rounded_or_not(x) for x in (a, b)]
    found = bounds.contracted(equation, *parts, a.dtype.compute, max(terms, 1), LOST[precision])
    return Value(wanted, tuple(dims), found)


def _asked(x: Value, dtype: DataType | None) -> Value:
    """The result in another type, rounded once. One of 16 or 8 bits may be read before that: who
    goes on with a sum of Doubles in its kernel has it as it is, others as Floats.
    """
    if dtype is None or dtype is x.dtype:
        return x
    if not dtype.is_float or dtype.compute is dtype:
        return Value(dtype, x.dims, bounds.converted(x.wide, dtype))
    if x.wide.dtype is dtype.compute:
        return Value(dtype, x.dims, x.wide)
    stored = bounds.converted(x.wide, dtype.compute)
    away = np.abs(np.where(np.isfinite(stored.value), stored.value, 0.0)) * UNIT[stored.dtype]
    return Value(dtype, x.dims, Bounded(stored.dtype, stored.value, stored.error + away))


def _rounded_or_not(x: Value) -> Bounded:
    narrow = x.narrow()
    with np.errstate(all="ignore"):
        away = np.where(x.wide.value == narrow.value, 0.0, np.abs(x.wide.value - narrow.value))
    error = np.maximum(narrow.error, np.where(np.isnan(away), 0.0, away + x.wide.error))
    return Bounded(narrow.dtype, narrow.value, error)


def matmul(
    program: Program,
    a: Any,
    b: Any,
    dtype: DataType | None = None,
    precision: str = "exact",
) -> Value:
    first, second = as_tensor(a), as_tensor(b)
    require(bool(first.dims) and bool(second.dims), "dimensions")
    inner = second.dims[-2] if len(second.dims) > 1 else second.dims[-1]
    require(first.dims[-1] == inner, "inner extents")
    vector = len(first.dims) == 1, len(second.dims) == 1
    if vector[0]:
        first = broadcast(program, first, (True, False))
    if vector[1]:
        second = broadcast(program, second, (False, True))
    rank = max(len(first.dims), len(second.dims))
    wide = [
        broadcast(program, x, (True,) * (rank - len(x.dims)) + (False,) * len(x.dims))
        for x in (first, second)
    ]
    pairs = zip(wide[0].dims[:-2], wide[1].dims[:-2], strict=True)
    batches = []
    for x, y in pairs:
        require(not x or not y or x == y, "batches")
        batches.append(x or y)
    for x in wide:
        held = math.prod(program.shape((*batches, *x.dims[-2:])))
        require(held <= _MOST_HELD, "too large to be computed in float64 here")
    a, b = (expand(program, x, Shape((*batches, *x.dims[-2:]))) for x in wide)
    letters = "".join(chr(ord("a") + d) for d in range(len(batches)))
    dims = (*batches, first.dims[-2], second.dims[-1])
    result = _product(program, f"{letters}xz,{letters}zy->{letters}xy", a, b, dims, precision)
    if vector[0]:
        result = _squeeze_any(result, len(batches))
    return _asked(_squeeze_any(result, len(result.dims) - 1) if vector[1] else result, dtype)


def _squeeze_any(x: Value, d: int) -> Value:
    return moved(x, [*x.dims[:d], *x.dims[d + 1 :]], lambda v: v.squeeze(d))


def linear(
    program: Program,
    x: Any,
    weight: Any,
    bias: Any = None,
    dtype: DataType | None = None,
    precision: str = "exact",
) -> Value:
    first, second = as_tensor(x), as_tensor(weight)
    require(len(second.dims) <= 2, "weight")
    if len(second.dims) == 2:
        second = transpose(program, second)
    result = matmul(program, first, second, None, precision)
    if bias is None:
        return _asked(result, dtype)
    given = as_tensor(bias)
    require(given.dtype is result.dtype, "types")
    require(given.dims == as_tensor(weight).dims[:-1], "bias")
    return _asked(pointwise(program, "add", result, given), dtype)


def bmm(program: Program, a: Any, b: Any, **options: Any) -> Value:
    require(len(as_tensor(a).dims) == len(as_tensor(b).dims) == 3, "three dimensions")
    return matmul(program, a, b, **options)


def addmm(program: Program, c: Any, a: Any, b: Any, **options: Any) -> Value:
    require(len(as_tensor(a).dims) == len(as_tensor(b).dims) == 2, "two dimensions")
    return _added(program, c, a, b, **options)


def baddbmm(program: Program, c: Any, a: Any, b: Any, **options: Any) -> Value:
    require(len(as_tensor(a).dims) == len(as_tensor(b).dims) == 3, "three dimensions")
    return _added(program, c, a, b, **options)


def _added(
    program: Program,
    c: Any,
    a: Any,
    b: Any,
    beta: Any = 1,
    alpha: Any = 1,
    dtype: DataType | None = None,
    precision: str = "exact",
) -> Value:
    """A factor of 0 leaves out what it multiplies."""
    made = matmul(program, a, b, None, precision)
    require(as_tensor(c).dtype is made.dtype, "types")
    second = pointwise(program, "mul", made, alpha) if alpha not in (0, 1) else made
    if alpha == 0:
        second = full(program, Shape(made.dims), 0, made.dtype)
    if beta == 0:
        return _asked(second, dtype)
    first = pointwise(program, "mul", c, beta) if beta != 1 else c
    return _asked(pointwise(program, "add", second, first), dtype)


def mv(program: Program, a: Any, b: Any, dtype: DataType | None = None) -> Value:
    require([len(as_tensor(x).dims) for x in (a, b)] == [2, 1], "a matrix and a vector")
    return matmul(program, a, b, dtype)


def dot(program: Program, a: Any, b: Any, dtype: DataType | None = None) -> Value:
    require(len(as_tensor(a).dims) == len(as_tensor(b).dims) == 1, "vectors")
    return matmul(program, a, b, dtype)


def grouped_matmul(
    program: Program,
    x: Any,
    weight: Any,
    sizes: Any,
    dtype: DataType | None = None,
    precision: str = "exact",
) -> Value:
    """Ends are known; those that decrease are those before them, and those outside of the rows the
    nearest. Of three dimensions, sizes say how many rows of each group are not 0.
    """
    first, second, told = as_tensor(x), as_tensor(weight), as_tensor(sizes)
    require(first.dtype is second.dtype and first.dtype in FLOATS, "types")
    require(told.dtype in (DataType.Int, DataType.Int32), "integers")
    require(len(second.dims) == 3 and told.dims == second.dims[:1], "groups")
    require(len(first.dims) in (2, 3) and first.dims[-1] == second.dims[2], "terms")
    require(not told.wide.error.any(), "known ends")
    if len(first.dims) == 3:
        require(first.dims[0] == second.dims[0], "groups")
        made = matmul(program, first, transpose(program, second), None, precision)
        row = np.arange(made.wide.value.shape[1])[:, None]
        own = row < told.wide.value[:, None, None]
        kept = made.wide.moved(lambda v: np.where(own, v, 0))
        return _asked(Value(made.dtype, made.dims, kept), dtype)
    require(bool(first.dims[0] and second.dims[0] and second.dims[2]), "dimensions of 1")
    dims = (first.dims[0], second.dims[1])
    require(math.prod(program.shape((*dims, second.dims[2]))) <= _MOST_HELD, "too large")
    rows = program.shape(dims)[0]
    ends = np.maximum.accumulate(np.clip(told.wide.value, 0, rows))
    group = np.searchsorted(ends, np.arange(rows), "right")

    def own_matrices(v: np.ndarray) -> np.ndarray:
        return np.concatenate([v, np.zeros((1, *v.shape[1:]), v.dtype)])[group]

    each = moved(second, (first.dims[0], *second.dims[1:]), own_matrices)
    return _asked(_product(program, "ac,abc->ab", first, each, dims, precision), dtype)


def einsum(
    program: Program,
    equation: str,
    a: Any,
    b: Any,
    dtype: DataType | None = None,
    precision: str = "exact",
) -> Value:
    """Of two operands without dimensions of 1, each letter in two of the three places."""
    first, second = as_tensor(a), as_tensor(b)
    given, kept = equation.split("->")
    letters = given.split(",")
    require([len(x) for x in letters] == [len(x.dims) for x in (first, second)], "letters")
    dims: dict[str, Dim] = {}
    for own, value in zip(letters, (first, second), strict=True):
        for letter, dim in zip(own, value.dims, strict=True):
            require(bool(dim) and dims.setdefault(letter, dim) == dim, "extents")
    counts = Counter(equation)
    require(all(counts[letter] == 2 or letter in kept for letter in dims), "letters")
    require(any(letter not in kept for letter in dims), "nothing is summed")
    held = math.prod(program.shape(tuple(dims.values())))
    require(held <= _MOST_HELD, "too large to be computed in float64 here")
    made = _product(program, equation, first, second, [dims[x] for x in kept], precision)
    return _asked(made, dtype)
