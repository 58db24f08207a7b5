"""What a program means: each statement's rule of type and shape, and its values with bounds.

Nothing here looks at a fusion. Promotion and the functions of single numbers are the table's
(`ops/table`), which has tests of its own; shapes, moves, reductions, products and what is rounded
where are said a second time, so that a fault in `ops` shows as well as one in a kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.programs import bounds
from tests.programs.arrays import array
from tests.programs.bounds import Bounded
from tests.programs.program import (
    Dim,
    Extent,
    Input,
    InvalidProgramError,
    Program,
    Ref,
    ScalarInput,
    Shape,
    Statement,
)
from warpsmith.ir.dtypes import DataType, result_type
from warpsmith.ops.table import TABLE


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the program.

    Attributes:
        dtype: as the user sees it.
        wide: its values; where it was rounded implicitly, the Float values before that.
    """

    dtype: DataType
    dims: tuple[Dim, ...]
    wide: Bounded

    def narrow(self) -> Bounded:
        """The values as they were rounded."""
        return bounds.converted(self.wide, self.dtype)


@dataclass(slots=True)
class Meaning:
    """The values of a program as far as it has been run."""

    program: Program
    values: dict[str, Value] = field(default_factory=dict)
    scalars: dict[str, ScalarInput] = field(default_factory=dict)

    def run(self) -> None:
        """All of the program. InvalidProgramError where a statement breaks a rule."""
        for given in self.program.inputs:
            self.give(given)
        for statement in self.program.statements:
            self.step(statement)

    def give(self, given: Input | ScalarInput) -> None:
        if isinstance(given, ScalarInput):
            self.scalars[given.name] = given
            return
        shape = self.program.shape(given.dims)
        drawn = array(given.dtype, shape, given.layout, given.values, given.seed)
        self.values[given.name] = Value(given.dtype, given.dims, bounds.exact(given.dtype, drawn))

    def step(self, statement: Statement) -> None:
        """Run one statement whose operands are there."""
        options = {name: self._argument(value) for name, value in statement.options}
        args = [self._argument(value) for value in statement.args]
        rule = RULES.get(statement.op)
        if rule is None:
            made = _pointwise(self, statement.op, *args)
        else:
            made = rule(self, *args, **options)
        results = made if isinstance(made, tuple) else (made,)
        _require(len(results) == len(statement.results), "results")
        for name, value in zip(statement.results, results, strict=True):
            _require(value.wide.value.shape == self.program.shape(value.dims), "shape")
            self.values[name] = value

    def _argument(self, value: Any) -> Any:
        if isinstance(value, Ref):
            found = self.values.get(value.name, self.scalars.get(value.name))
            _require(found is not None, f"{value.name} is not defined")
            return found
        if isinstance(value, Shape):
            for dim in value.dims:
                self.program.spelled(dim)
        if isinstance(value, Extent):
            self.program.spelled(value.dim)
        return value

    def made(self, dims: tuple[Dim, ...], dtype: DataType, found: Bounded) -> Value:
        """A result of an operation; 16-bit ones that were computed in Float are kept so."""
        return Value(dtype, dims, found)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise InvalidProgramError(what)


def _tensor(value: Any) -> Value:
    _require(isinstance(value, Value), "a tensor is needed")
    assert isinstance(value, Value)
    return value


def _scalar_type(value: Any) -> DataType:
    if isinstance(value, ScalarInput):
        return value.dtype
    if isinstance(value, bool):
        return DataType.Bool
    return DataType.Int if isinstance(value, int) else DataType.Double


def _number(value: Any) -> Any:
    return value.value if isinstance(value, ScalarInput) else value


# --- element by element ------------------------------------------------------------------------

_EXACT = (
    "abs",
    "neg",
    "relu",
    "sign",
    "floor",
    "ceil",
    "round",
    "trunc",
    "where",
    "clamp",
    "maximum",
    "minimum",
    "threshold",
    "fmod",
    "cast",
    "set",
)
_CORRECT = (
    "add",
    "sub",
    "mul",
    "div",
    "truediv",
    "sqrt",
    "reciprocal",
    "frac",
    "remainder",
    "floor_divide",
    "nextafter",
)


def _ulps(name: str) -> float:
    """Halves of units in the last place that a function may be off."""
    return 0.0 if name in _EXACT else 2.0 if name in _CORRECT else 32.0


def _common(values: Sequence[Any], beside: bool) -> DataType:
    tensors = [v for v in values if isinstance(v, Value)]
    scalars = tuple(_scalar_type(v) for v in values if not isinstance(v, Value))
    if beside and not tensors:
        return result_type((DataType.Bool,), (), scalars)
    return result_type(
        tuple(t.dtype for t in tensors if t.dims),
        tuple(t.dtype for t in tensors if not t.dims),
        scalars,
    )


def _operand(value: Any, dtype: DataType) -> Bounded:
    """A tensor, a scalar or a number in the type that is computed in."""
    if isinstance(value, Value):
        read = value.wide if value.dtype is not dtype else value.narrow()
        return bounds.converted(read, dtype)
    held = bounds.exact(_scalar_type(value), np.asarray(_number(value)))
    return bounds.converted(held, dtype)


def _aligned(values: Sequence[Any]) -> tuple[tuple[Dim, ...], list[int]]:
    """Dimensions of an element-by-element result, and each tensor's missing leading ones."""
    tensors = [v for v in values if isinstance(v, Value)]
    _require(bool(tensors), "no tensor")
    rank = max(len(t.dims) for t in tensors)
    dims: list[Dim] = [()] * rank
    for t in tensors:
        for d, dim in enumerate(t.dims, rank - len(t.dims)):
            _require(not dim or not dims[d] or dim == dims[d], "extents differ")
            dims[d] = dims[d] or dim
    return tuple(dims), [rank - len(v.dims) if isinstance(v, Value) else 0 for v in values]


def _pointwise(meaning: Meaning, name: str, *values: Any) -> Value:
    _require(name in TABLE, f"there is no {name}")
    op = TABLE[name]
    _require(len(values) == op.arity, "operands")
    dims, _ = _aligned(values)
    common = _common(values[op.conditions :], True)
    _require(op.supports(common), "type")
    compute, result = op.compute_dtype(common), op.result_dtype(common)
    types = [DataType.Bool] * op.conditions + [compute] * (len(values) - op.conditions)
    operands = [_operand(v, dtype) for v, dtype in zip(values, types, strict=True)]
    shape = meaning.program.shape(dims)
    found = _computed(name, compute, result, operands)
    return meaning.made(dims, result, found.moved(lambda x: np.broadcast_to(x, shape)))


def _computed(
    name: str, compute: DataType, result: DataType, operands: Sequence[Bounded]
) -> Bounded:
    function = TABLE[name].numpy
    if name == "where":
        return _chosen(*operands)
    if name in ("eq", "ne") and compute.is_float:
        with np.errstate(all="ignore"):
            apart = np.abs(operands[0].value - operands[1].value)
        near = apart <= sum(x.error for x in operands)
        doubtful = near & (operands[0].error + operands[1].error > 0)
        value = function(*(x.value for x in operands))
        return Bounded(DataType.Bool, value, np.where(doubtful, np.inf, 0.0))
    if result is DataType.Bool:
        return bounds.decided(function, operands)
    if compute.is_float:
        extra = _cancelled(name, operands) * bounds.UNIT[compute]
        return bounds.sampled(function, compute, operands, ulps=_ulps(name), extra=extra)
    return _exact_integers(name, result, operands)


def _chosen(condition: Bounded, a: Bounded, b: Bounded) -> Bounded:
    error = np.where(condition.value, a.error, b.error)
    error = np.where(condition.unknown, np.inf, error)
    return Bounded(a.dtype, np.where(condition.value, a.value, b.value), error)


def _cancelled(name: str, operands: Sequence[Bounded]) -> np.ndarray | float:
    """Size of the terms whose roundings a result may be left with, where they cancel."""
    x = [np.where(np.isfinite(o.value), np.abs(o.value), 0.0) for o in operands]
    if name == "addcmul":
        return np.asarray(4 * (x[0] + x[1] * x[2] * x[3]))
    if name == "lerp":
        return np.asarray(8 * (x[0] + x[1]) * (1 + x[2]))
    if name in ("remainder", "fmod"):
        return np.asarray(4 * x[1])
    if name == "lgamma":
        return 64.0
    return 0.0


def _exact_integers(name: str, result: DataType, operands: Sequence[Bounded]) -> Bounded:
    arrays = [x.value for x in operands]
    with np.errstate(all="ignore"):
        value = TABLE[name].numpy(*arrays)
        unknown = sum(x.error for x in operands)
        if name in ("div", "fmod", "mod", "remainder"):
            unknown = np.where((arrays[1] == 0) | (arrays[1] == -1), np.inf, unknown)
        if name == "gcd":
            lowest = np.iinfo(arrays[0].dtype).min
            unknown = np.where((arrays[0] == lowest) | (arrays[1] == lowest), np.inf, unknown)
    if result.is_float:
        return bounds.exact(result, value)
    return Bounded(result, value, np.broadcast_to(unknown, value.shape))


def _floor_divide(meaning: Meaning, a: Any, b: Any) -> Value:
    common = _common((a, b), True)
    _require(TABLE["remainder"].supports(common), "type")
    dims, _ = _aligned((a, b))
    operands = [_operand(v, common.compute) for v in (a, b)]
    if common.is_float:
        found = bounds.sampled(np.floor_divide, common.compute, operands, ulps=2)
        zero = np.broadcast_to(operands[1].value == 0, found.value.shape)
        found = Bounded(found.dtype, found.value, np.where(zero, np.inf, found.error))
    else:
        with np.errstate(all="ignore"):
            value = np.floor_divide(operands[0].value, operands[1].value)
        bad = (operands[1].value == 0) | (operands[1].value == -1)
        error = np.where(bad, np.inf, operands[0].error + operands[1].error)
        found = Bounded(common, value, error)
    shape = meaning.program.shape(dims)
    return meaning.made(dims, common, found.moved(lambda x: np.broadcast_to(x, shape)))


def _clamp(meaning: Meaning, x: Any, low: Any = None, high: Any = None) -> Value:
    if high is None:
        return _pointwise(meaning, "maximum", x, low)
    if low is None:
        return _pointwise(meaning, "minimum", x, high)
    return _pointwise(meaning, "clamp", x, low, high)


def _addcmul(meaning: Meaning, x: Any, a: Any, b: Any, value: Any = 1) -> Value:
    return _pointwise(meaning, "addcmul", x, a, b, value)


def _cast(meaning: Meaning, x: Any, dtype: DataType) -> Value:
    tensor = _tensor(x)
    found = bounds.converted(tensor.wide, dtype)
    return Value(dtype, tensor.dims, found)


def _set(meaning: Meaning, x: Any) -> Value:
    tensor = _tensor(x)
    return Value(tensor.dtype, tensor.dims, tensor.narrow())


# --- moves -------------------------------------------------------------------------------------


def _moved(x: Value, dims: Sequence[Dim], move: Callable[[np.ndarray], np.ndarray]) -> Value:
    return Value(x.dtype, tuple(dims), x.wide.moved(move))


def _permute(meaning: Meaning, x: Any, order: Sequence[int]) -> Value:
    tensor = _tensor(x)
    _require(sorted(order) == list(range(len(tensor.dims))), "permutation")
    return _moved(tensor, [tensor.dims[d] for d in order], lambda v: v.transpose(order))


def _transpose(meaning: Meaning, x: Any, first: int = -2, second: int = -1) -> Value:
    rank = len(_tensor(x).dims)
    _require(-rank <= first < rank and -rank <= second < rank, "dimension")
    order = list(range(rank))
    order[first], order[second] = order[second], order[first]
    return _permute(meaning, x, order)


def _reshape(meaning: Meaning, x: Any, shape: Shape) -> Value:
    tensor = _tensor(x)
    names = [sum(dims, ()) for dims in (tensor.dims, shape.dims)]
    _require(names[0] == names[1], "elements")
    extents = meaning.program.shape(shape.dims)
    return _moved(tensor, shape.dims, lambda v: v.reshape(extents))


def _broadcast(meaning: Meaning, x: Any, flags: Sequence[bool]) -> Value:
    tensor = _tensor(x)
    _require(list(flags).count(False) == len(tensor.dims), "flags")
    new = tuple(d for d, flag in enumerate(flags) if flag)
    kept = iter(tensor.dims)
    dims = [() if flag else next(kept) for flag in flags]
    return _moved(tensor, dims, lambda v: np.expand_dims(v, new))


def _expand(meaning: Meaning, x: Any, shape: Shape) -> Value:
    tensor = _tensor(x)
    _require(len(shape.dims) == len(tensor.dims), "rank")
    pairs = zip(tensor.dims, shape.dims, strict=True)
    _require(all(not old or old == new for old, new in pairs), "only 1 is expanded")
    extents = meaning.program.shape(shape.dims)
    return _moved(tensor, shape.dims, lambda v: np.broadcast_to(v, extents))


def _broadcast_in_dim(meaning: Meaning, x: Any, shape: Shape, where: Sequence[int]) -> Value:
    flags = [d not in where for d in range(len(shape.dims))]
    return _expand(meaning, _broadcast(meaning, x, flags), shape)


def _squeeze(meaning: Meaning, x: Any, dims: Sequence[int]) -> Value:
    tensor = _tensor(x)
    _require(all(not tensor.dims[d] for d in dims), "only 1 is squeezed")
    kept = [dim for d, dim in enumerate(tensor.dims) if d not in dims]
    return _moved(tensor, kept, lambda v: np.squeeze(v, tuple(dims)))


def _stride_order(meaning: Meaning, x: Any, order: Sequence[int]) -> Value:
    tensor = _tensor(x)
    _require(sorted(order) == list(range(len(tensor.dims))), "order")
    return _set(meaning, x)


# --- reductions --------------------------------------------------------------------------------


def _kept(x: Value, dims: Sequence[int] | None, keepdim: bool) -> tuple[tuple[int, ...], list[Dim]]:
    """The reduced dimensions, and those of the result."""
    gone = tuple(range(len(x.dims))) if dims is None else tuple(d % len(x.dims) for d in dims)
    _require(len(set(gone)) == len(gone), "a dimension twice")
    if keepdim:
        return gone, [() if d in gone else dim for d, dim in enumerate(x.dims)]
    return gone, [dim for d, dim in enumerate(x.dims) if d not in gone]


def _reduced(
    meaning: Meaning,
    x: Value,
    dims: Sequence[int] | None,
    keepdim: bool,
    dtype: DataType,
    reduce: Callable[[tuple[int, ...]], Bounded],
) -> Value:
    gone, left = _kept(x, dims, keepdim)
    found = reduce(gone)
    shape = meaning.program.shape(left)
    return meaning.made(tuple(left), dtype, found.moved(lambda v: v.reshape(shape)))


def _accumulation(op: str) -> Callable[..., Value]:
    def rule(
        meaning: Meaning,
        x: Any,
        dims: Sequence[int] | None = None,
        keepdim: bool = False,
        dtype: DataType | None = None,
    ) -> Value:
        tensor = _tensor(x)
        result = dtype or (tensor.dtype if tensor.dtype.is_float else DataType.Int)
        source = _operand(tensor, result.compute)

        def reduce(gone: tuple[int, ...]) -> Bounded:
            if result.is_float:
                how = bounds.summed if op == "sum" else bounds.multiplied
                return how(source, gone, result.compute)
            how_exact = np.sum if op == "sum" else np.prod
            value = how_exact(source.value, gone, dtype=source.value.dtype)
            return Bounded(result, np.asarray(value), source.error.sum(gone))

        return _reduced(meaning, tensor, dims, keepdim, result, reduce)

    return rule


def _extreme(op: str) -> Callable[..., Value]:
    def rule(
        meaning: Meaning, x: Any, dims: Sequence[int] | None = None, keepdim: bool = False
    ) -> Value:
        tensor = _tensor(x)
        for d in _kept(tensor, dims, keepdim)[0]:
            _require(meaning.program.extent(tensor.dims[d]) > 0, "there is no extreme of nothing")
        source = _operand(tensor, tensor.dtype.compute)

        def reduce(gone: tuple[int, ...]) -> Bounded:
            return bounds.extreme(source, gone, largest=op == "max")

        return _reduced(meaning, tensor, dims, keepdim, tensor.dtype, reduce)

    return rule


def _mean(
    meaning: Meaning, x: Any, dims: Sequence[int] | None = None, keepdim: bool = False
) -> Value:
    tensor = _tensor(x)
    _require(tensor.dtype.is_float, "type")
    return _reduced(
        meaning, tensor, dims, keepdim, tensor.dtype, lambda gone: _average(tensor, gone)
    )


def _average(x: Value, gone: tuple[int, ...]) -> Bounded:
    compute = x.dtype.compute
    source = _operand(x, compute)
    count = bounds.exact(compute, np.asarray(float(math.prod(source.value.shape[d] for d in gone))))
    total = bounds.summed(source, gone, compute)
    return bounds.sampled(np.true_divide, compute, (total, count), ulps=4)


def _squares(x: Value, gone: tuple[int, ...]) -> Bounded:
    """Sum of squared deviations from the mean, in Float or Double."""
    compute = x.dtype.compute
    source = _operand(x, compute)
    total = _average(x, gone)
    with np.errstate(all="ignore"):
        middle = np.expand_dims(total.value, gone)
        away = source.value - middle
        count = math.prod(source.value.shape[d] for d in gone)
        slack = source.error + np.expand_dims(total.error, gone)
        slack += (8 + np.sqrt(count)) * bounds.UNIT[compute] * np.abs(middle)
        value = np.square(away).sum(gone)
        error = (2 * np.abs(away) * slack + np.square(slack)).sum(gone)
        error += (8 + 4 * np.sqrt(count)) * bounds.UNIT[compute] * value
    return bounds.settled(compute, value, error + bounds.SMALLEST[compute])


def _var_mean(
    meaning: Meaning,
    x: Any,
    dims: Sequence[int] | None = None,
    correction: float = 1,
    keepdim: bool = False,
) -> tuple[Value, Value]:
    tensor = _tensor(x)
    _require(tensor.dtype.is_float, "type")
    compute = tensor.dtype.compute

    def variance(gone: tuple[int, ...]) -> Bounded:
        count = math.prod(meaning.program.extent(tensor.dims[d]) for d in gone)
        divisor = bounds.exact(compute, np.asarray(max(count - float(correction), 0.0)))
        squares = _squares(tensor, gone)
        if divisor.value == 0:  # 0 / 0 or a small number / 0
            nothing = np.where(squares.error > bounds.SMALLEST[compute], np.inf, 0.0)
            value = np.where(squares.value == 0, np.nan, np.inf)
            return Bounded(compute, value, np.where(np.isnan(squares.value), 0.0, nothing))
        return bounds.sampled(np.true_divide, compute, (squares, divisor), ulps=4)

    return (
        _reduced(meaning, tensor, dims, keepdim, tensor.dtype, variance),
        _mean(meaning, x, dims, keepdim),
    )


def _var(meaning: Meaning, x: Any, *args: Any, **options: Any) -> Value:
    return _var_mean(meaning, x, *args, **options)[0]


def _welford(meaning: Meaning, x: Any, dims: Sequence[int]) -> tuple[Value, Value, Value]:
    tensor = _tensor(x)
    _require(tensor.dtype.is_float, "type")
    compute = tensor.dtype.compute
    gone, left = _kept(tensor, dims, False)
    count = math.prod(meaning.program.extent(tensor.dims[d]) for d in gone)
    _require(count > 0, "welford of nothing")
    counts = np.full(meaning.program.shape(left), count)
    return (
        _reduced(meaning, tensor, dims, False, compute, lambda gone: _average(tensor, gone)),
        _reduced(meaning, tensor, dims, False, compute, lambda gone: _squares(tensor, gone)),
        Value(DataType.Int, tuple(left), bounds.exact(DataType.Int, counts)),
    )


# --- from scalars, and random ------------------------------------------------------------------


def _full(meaning: Meaning, shape: Shape, value: Any, dtype: DataType | None = None) -> Value:
    kind = {0: DataType.Bool, 1: DataType.Int, 2: DataType.Float}[_scalar_type(value).category]
    wanted = dtype or kind
    extents = meaning.program.shape(shape.dims)
    found = _operand(value, wanted)
    return Value(wanted, shape.dims, found.moved(lambda v: np.broadcast_to(v, extents)))


def _full_like(meaning: Meaning, x: Any, value: Any, dtype: DataType | None = None) -> Value:
    return _full(meaning, Shape(_tensor(x).dims), value, dtype or _tensor(x).dtype)


def _iota(
    meaning: Meaning, length: Extent, start: Any = 0, step: Any = 1, dtype: DataType = DataType.Int
) -> Value:
    places = np.arange(meaning.program.extent(length.dim))
    first, increment = _operand(start, dtype), _operand(step, dtype)
    with np.errstate(all="ignore"):
        value = first.value + increment.value * places
    if not dtype.is_float:
        value = value.astype(first.value.dtype)
    slack = np.abs(first.value) + np.abs(increment.value * places)
    error = 4 * bounds.UNIT[dtype] * slack if dtype.is_float else np.zeros(value.shape)
    return Value(dtype, (length.dim,), Bounded(dtype, value, error))


def _drawn(extents: Sequence[int], seed: Any, offset: Any, shift: int = 0) -> Bounded:
    places = np.arange(math.prod(extents)).reshape(tuple(extents)) + shift
    numbers = TABLE["philox"].numpy(places, np.asarray(_number(seed)), np.asarray(_number(offset)))
    return bounds.exact(DataType.Float, numbers.reshape(tuple(extents)))


def _uniform(
    meaning: Meaning,
    low: Any,
    high: Any,
    shape: Shape,
    *,
    rng_seed: Any,
    rng_offset: Any,
    dtype: DataType,
) -> Value:
    _require(dtype is DataType.Float, "other types are drawn otherwise")
    extents = meaning.program.shape(shape.dims)
    drawn = Value(DataType.Float, shape.dims, _drawn(extents, rng_seed, rng_offset))
    if (low, high) == (0, 1):
        return drawn
    scaled = _pointwise(meaning, "mul", drawn, _number(high) - _number(low))
    return _pointwise(meaning, "add", low, scaled)


def _normal(
    meaning: Meaning,
    mean: Any,
    std: Any,
    shape: Shape,
    *,
    rng_seed: Any,
    rng_offset: Any,
    dtype: DataType,
) -> Value:
    _require(dtype is DataType.Float, "other types are drawn otherwise")
    extents = meaning.program.shape(shape.dims)
    places = np.arange(math.prod(extents)).reshape(extents)
    philox, seed = TABLE["philox"].numpy, np.asarray(_number(rng_seed))
    first, second = (
        philox(p, seed, np.asarray(_number(rng_offset))).astype(float)
        for p in (places & -2, places | 1)
    )
    with np.errstate(all="ignore"):
        radius, angle = np.sqrt(-2 * np.log1p(-first)), 2 * math.pi * second
        number = radius * np.where(places % 2 == 0, np.cos(angle), np.sin(angle))
    error = 64 * bounds.UNIT[DataType.Float] * (1 + radius)
    drawn = Value(DataType.Float, shape.dims, bounds.settled(DataType.Float, number, error))
    return _pointwise(meaning, "add", mean, _pointwise(meaning, "mul", drawn, std))


def _dropout(
    meaning: Meaning, x: Any, p: float, *, rng_seed: Any, rng_offset: Any
) -> tuple[Value, Value]:
    tensor = _tensor(x)
    _require(tensor.dtype.is_float, "type")
    extents = meaning.program.shape(tensor.dims)
    drawn = Value(DataType.Float, tensor.dims, _drawn(extents, rng_seed, rng_offset))
    kept = _pointwise(meaning, "ge", drawn, p)
    scaled = _pointwise(meaning, "mul", tensor, 1 / (1 - p))
    return _pointwise(meaning, "where", kept, scaled, 0.0), kept


# --- products ----------------------------------------------------------------------------------


def _product(meaning: Meaning, equation: str, a: Value, b: Value, dims: Sequence[Dim]) -> Value:
    """Operands are read as they were rounded, or not: tensor cores take the rounded ones."""
    _require(a.dtype is b.dtype and a.dtype.is_float, "types")
    inner = equation.split("->")[0].split(",")[0][-1]
    terms = a.wide.value.shape[equation.split(",")[0].index(inner)]
    compute = a.dtype.compute
    parts = [_rounded_or_not(x) for x in (a, b)]
    found = bounds.contracted(equation, *parts, compute, max(terms, 1))
    return meaning.made(tuple(dims), a.dtype, found)


def _rounded_or_not(x: Value) -> Bounded:
    narrow = x.narrow()
    with np.errstate(all="ignore"):
        away = np.where(x.wide.value == narrow.value, 0.0, np.abs(x.wide.value - narrow.value))
    error = np.maximum(narrow.error, np.where(np.isnan(away), 0.0, away + x.wide.error))
    return Bounded(narrow.dtype, narrow.value, error)


def _matmul(meaning: Meaning, a: Any, b: Any) -> Value:
    first, second = _tensor(a), _tensor(b)
    _require(bool(first.dims) and bool(second.dims), "dimensions")
    inner = second.dims[-2] if len(second.dims) > 1 else second.dims[-1]
    _require(first.dims[-1] == inner, "inner extents")
    vector = len(first.dims) == 1, len(second.dims) == 1
    if vector[0]:
        first = _broadcast(meaning, first, (True, False))
    if vector[1]:
        second = _broadcast(meaning, second, (False, True))
    rank = max(len(first.dims), len(second.dims))
    wide = [
        _broadcast(meaning, x, (True,) * (rank - len(x.dims)) + (False,) * len(x.dims))
        for x in (first, second)
    ]
    pairs = zip(wide[0].dims[:-2], wide[1].dims[:-2], strict=True)
    batches = []
    for x, y in pairs:
        _require(not x or not y or x == y, "batches")
        batches.append(x or y)
    found = [_expand(meaning, x, Shape((*batches, *x.dims[-2:]))) for x in wide]
    letters = "".join(chr(ord("a") + d) for d in range(len(batches)))
    dims = (*batches, first.dims[-2], second.dims[-1])
    result = _product(meaning, f"{letters}xz,{letters}zy->{letters}xy", *found, dims)
    if vector[0]:
        result = _squeeze_any(result, len(batches))
    return _squeeze_any(result, len(result.dims) - 1) if vector[1] else result


def _squeeze_any(x: Value, d: int) -> Value:
    return _moved(x, [*x.dims[:d], *x.dims[d + 1 :]], lambda v: v.squeeze(d))


def _linear(meaning: Meaning, x: Any, weight: Any, bias: Any = None) -> Value:
    first, second = _tensor(x), _tensor(weight)
    _require(len(second.dims) <= 2, "weight")
    if len(second.dims) == 2:
        second = _transpose(meaning, second)
    result = _matmul(meaning, first, second)
    if bias is None:
        return result
    given = _tensor(bias)
    _require(given.dtype is result.dtype, "types")
    _require(given.dims == _tensor(weight).dims[:-1], "bias")
    return _pointwise(meaning, "add", result, given)


def _bmm(meaning: Meaning, a: Any, b: Any) -> Value:
    _require(len(_tensor(a).dims) == len(_tensor(b).dims) == 3, "three dimensions")
    return _matmul(meaning, a, b)


def _addmm(meaning: Meaning, c: Any, a: Any, b: Any) -> Value:
    _require(len(_tensor(a).dims) == len(_tensor(b).dims) == 2, "two dimensions")
    return _pointwise(meaning, "add", c, _matmul(meaning, a, b))


RULES: dict[str, Callable[..., Any]] = {
    "addcmul": _addcmul,
    "addmm": _addmm,
    "bmm": _bmm,
    "broadcast": _broadcast,
    "broadcast_in_dim": _broadcast_in_dim,
    "cast": _cast,
    "clamp": _clamp,
    "dropout": _dropout,
    "expand": _expand,
    "floor_divide": _floor_divide,
    "full": _full,
    "full_like": _full_like,
    "iota": _iota,
    "linear": _linear,
    "matmul": _matmul,
    "max": _extreme("max"),
    "mean": _mean,
    "min": _extreme("min"),
    "normal": _normal,
    "permute": _permute,
    "prod": _accumulation("prod"),
    "reshape": _reshape,
    "set": _set,
    "squeeze": _squeeze,
    "stride_order": _stride_order,
    "sum": _accumulation("sum"),
    "transpose": _transpose,
    "uniform": _uniform,
    "var": _var,
    "var_mean": _var_mean,
    "welford": _welford,
}
"""Operations that are not simply entries of the table of pointwise ones."""
