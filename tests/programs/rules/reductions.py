"""Rules of reductions."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.programs import bounds, samples
from tests.programs.bounds import Bounded
from tests.programs.program import Dim, Program
from tests.programs.values import Value, as_tensor, operand, require
from warpsmith.ir.dtypes import DataType


def _kept(x: Value, dims: Sequence[int] | None, keepdim: bool) -> tuple[tuple[int, ...], list[Dim]]:
    """The reduced dimensions, and those of the result."""
    gone = tuple(range(len(x.dims))) if dims is None else tuple(d % len(x.dims) for d in dims)
    require(len(set(gone)) == len(gone), "a dimension twice")
    if keepdim:
        return gone, [() if d in gone else dim for d, dim in enumerate(x.dims)]
    return gone, [dim for d, dim in enumerate(x.dims) if d not in gone]


def _reduced(
    program: Program,
    x: Value,
    dims: Sequence[int] | None,
    keepdim: bool,
    dtype: DataType,
    reduce: Callable[[tuple[int, ...]], Bounded],
) -> Value:
    gone, left = _kept(x, dims, keepdim)
    found = reduce(gone)
    shape = program.shape(left)
    return Value(dtype, tuple(left), found.moved(lambda v: v.reshape(shape)))


def accumulation(op: str) -> Callable[..., Value]:
    def rule(
        program: Program,
        x: Any,
        dims: Sequence[int] | None = None,
        keepdim: bool = False,
        dtype: DataType | None = None,
    ) -> Value:
        tensor = as_tensor(x)
        result = dtype or (tensor.dtype if tensor.dtype.is_float else DataType.Int)
        source = operand(tensor, result.compute)

        def reduce(gone: tuple[int, ...]) -> Bounded:
            if result.is_float:
                how = bounds.summed if op == "sum" else bounds.multiplied
                return how(source, gone, result.compute)
            how_exact = np.sum if op == "sum" else np.prod
            value = how_exact(source.value, gone, dtype=source.value.dtype)
            return Bounded(result, np.asarray(value), source.error.sum(gone))

        return _reduced(program, tensor, dims, keepdim, result, reduce)

    return rule


def cumsum(
    program: Program,
    x: Any,
    dim: int,
    dtype: DataType | None = None,
    exclusive: bool = False,
    reverse: bool = False,
) -> Value:
    tensor = as_tensor(x)
    result = dtype or (tensor.dtype if tensor.dtype.is_float else DataType.Int)
    source = operand(tensor, result.compute)
    require(bool(tensor.dims), "a dimension")
    axis = dim % len(tensor.dims)

    def turned(array: np.ndarray) -> np.ndarray:
        return np.flip(array, axis) if reverse else array

    given = source.moved(turned)
    if result.is_float:
        found = bounds.accumulated(given, axis, result.compute, exclusive=exclusive)
    else:
        sums = np.cumsum(given.value, axis)
        sums = sums - given.value if exclusive else sums
        found = Bounded(result, sums, np.cumsum(given.error, axis))
    return Value(result, tensor.dims, found.moved(turned))


def logsumexp(
    program: Program, x: Any, dims: Sequence[int] | None = None, keepdim: bool = False
) -> Value:
    tensor = as_tensor(x)
    require(tensor.dtype.is_float, "type")
    compute = tensor.dtype.compute
    source = operand(tensor, compute)

    def reduce(gone: tuple[int, ...]) -> Bounded:
        return bounds.log_of_exponentials(source, gone, compute)

    return _reduced(program, tensor, dims, keepdim, tensor.dtype, reduce)


def place(op: str) -> Callable[..., Value]:
    def rule(program: Program, x: Any, dim: int, keepdim: bool = False) -> Value:
        tensor = as_tensor(x)
        require(program.extent(tensor.dims[dim]) > 0, "there is no extreme of nothing")
        source = operand(tensor, tensor.dtype.compute)

        def reduce(gone: tuple[int, ...]) -> Bounded:
            return bounds.place_of_extreme(source, gone[0], largest=op == "argmax")

        return _reduced(program, tensor, (dim,), keepdim, DataType.Int, reduce)

    return rule


def extreme(op: str) -> Callable[..., Value]:
    def rule(
        program: Program, x: Any, dims: Sequence[int] | None = None, keepdim: bool = False
    ) -> Value:
        tensor = as_tensor(x)
        for d in _kept(tensor, dims, keepdim)[0]:
            require(program.extent(tensor.dims[d]) > 0, "there is no extreme of nothing")
        source = operand(tensor, tensor.dtype.compute)

        def reduce(gone: tuple[int, ...]) -> Bounded:
            return bounds.extreme(source, gone, largest=op == "max")

        return _reduced(program, tensor, dims, keepdim, tensor.dtype, reduce)

    return rule


def mean(
    program: Program, x: Any, dims: Sequence[int] | None = None, keepdim: bool = False
) -> Value:
    tensor = as_tensor(x)
    require(tensor.dtype.is_float, "type")
    return _reduced(
        program, tensor, dims, keepdim, tensor.dtype, lambda gone: _average(tensor, gone)
    )


def _average(x: Value, gone: tuple[int, ...]) -> Bounded:
    compute = x.dtype.compute
    source = operand(x, compute)
    count = bounds.exact(compute, np.asarray(float(math.prod(source.value.shape[d] for d in gone))))
    total = bounds.summed(source, gone, compute)
    return samples.sampled(np.true_divide, compute, (total, count), ulps=4)


def _squares(x: Value, gone: tuple[int, ...]) -> Bounded:
    """Sum of squared deviations from the mean, in Float or Double."""
    compute = x.dtype.compute
    source = operand(x, compute)
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


def var_mean(
    program: Program,
    x: Any,
    dims: Sequence[int] | None = None,
    correction: float = 1,
    keepdim: bool = False,
) -> tuple[Value, Value]:
    tensor = as_tensor(x)
    require(tensor.dtype.is_float, "type")
    compute = tensor.dtype.compute

    def variance(gone: tuple[int, ...]) -> Bounded:
        count = math.prod(program.extent(tensor.dims[d]) for d in gone)
        divisor = bounds.exact(compute, np.asarray(max(count - float(correction), 0.0)))
        squares = _squares(tensor, gone)
        if divisor.value == 0:  # 0 / 0 or a small number / 0
            nothing = np.where(squares.error > bounds.SMALLEST[compute], np.inf, 0.0)
            value = np.where(squares.value > 0, np.inf, np.nan)
            return Bounded(compute, value, np.where(np.isnan(squares.value), 0.0, nothing))
        return samples.sampled(np.true_divide, compute, (squares, divisor), ulps=4)

    return (
        _reduced(program, tensor, dims, keepdim, tensor.dtype, variance),
        mean(program, x, dims, keepdim),
    )


def var(program: Program, x: Any, *args: Any, **options: Any) -> Value:
    return var_mean(program, x, *args, **options)[0]


def welford(program: Program, x: Any, dims: Sequence[int]) -> tuple[Value, Value, Value]:
    tensor = as_tensor(x)
    require(tensor.dtype.is_float, "type")
    compute = tensor.dtype.compute
    gone, left = _kept(tensor, dims, False)
    count = math.prod(program.extent(tensor.dims[d]) for d in gone)
    require(count > 0, "welford of nothing")
    counts = np.full(program.shape(left), count)
    return (
        _reduced(program, tensor, dims, False, compute, lambda gone: _average(tensor, gone)),
        _reduced(program, tensor, dims, False, compute, lambda gone: _squares(tensor, gone)),
        Value(DataType.Int, tuple(left), bounds.exact(DataType.Int, counts)),
    )
