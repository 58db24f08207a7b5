"""Rules of what reads elements at other places, and of scans but sums."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.programs import bounds
from tests.programs.bounds import Bounded
from tests.programs.program import Dim, Extent, Program
from tests.programs.rules.moves import moved
from tests.programs.rules.pointwise import pointwise
from tests.programs.values import Value, as_tensor, operand, perhaps_stored, require
from warpsmith.ir.dtypes import DataType

Move = Callable[[np.ndarray], np.ndarray]


def _elsewhere(x: Value, dims: Sequence[Dim], move: Move) -> Value:
    """What is read at other places is stored before, in whatever type."""
    return moved(perhaps_stored(x), dims, move)


def flip(program: Program, x: Any, dims: Sequence[int]) -> Value:
    tensor = as_tensor(x)
    require(len(set(dims)) == len(dims), "a dimension twice")
    return _elsewhere(tensor, tensor.dims, lambda v: np.flip(v, tuple(dims)))


def roll(program: Program, x: Any, shifts: Sequence[int], dims: Sequence[int]) -> Value:
    tensor = as_tensor(x)
    require(len(set(dims)) == len(dims) == len(shifts), "a shift of each dimension")
    return _elsewhere(tensor, tensor.dims, lambda v: np.roll(v, tuple(shifts), tuple(dims)))


def _corner(keep: Callable[..., np.ndarray]) -> Callable[..., Value]:
    def rule(program: Program, x: Any, diagonal: int = 0) -> Value:
        tensor = as_tensor(x)
        require(len(tensor.dims) > 1, "a matrix is needed")
        kept = keep(np.ones(program.shape(tensor.dims[-2:]), bool), diagonal)
        return moved(tensor, tensor.dims, lambda v: np.where(kept, v, np.zeros((), v.dtype)))

    return rule


tril, triu = _corner(np.tril), _corner(np.triu)


def masked_fill(program: Program, x: Any, mask: Any, number: Any) -> Value:
    require(as_tensor(mask).dtype is DataType.Bool, "a mask")
    found = pointwise(program, "where", mask, number, x)
    require((found.dims, found.dtype) == (as_tensor(x).dims, as_tensor(x).dtype), "as the tensor")
    return found


def outer(program: Program, a: Any, b: Any) -> Value:
    left, right = as_tensor(a), as_tensor(b)
    require(len(left.dims) == len(right.dims) == 1, "vectors")
    column = moved(left, (*left.dims, ()), lambda v: v[:, None])
    return pointwise(program, "mul", column, right)


def repeat_interleave(program: Program, x: Any, repeats: Extent, dim: int) -> Value:
    tensor = as_tensor(x)
    require(program.is_static(repeats.dim), "how often is known")
    often, d = program.extent(repeats.dim), dim % len(tensor.dims)
    require(often > 0, "at least once")
    dims = [*tensor.dims[:d], tensor.dims[d] + repeats.dim, *tensor.dims[d + 1 :]]
    return _elsewhere(tensor, dims, lambda v: np.repeat(v, often, d))


def joined(op: str) -> Callable[..., Value]:
    """`stack` and `cat`: tensors of equal dimensions behind each other, as many as a size says."""

    def rule(program: Program, tensors: Sequence[Any], dim: int) -> Value:
        parts = [perhaps_stored(as_tensor(x)) for x in tensors]
        first = parts[0]
        require(all((x.dims, x.dtype) == (first.dims, first.dtype) for x in parts), "alike")
        count: Dim = (f"c{len(parts)}",)
        require(count[0] in program.sizes and program.extent(count) == len(parts), "so many")
        before, behind = first.dims[:dim], first.dims[dim:]
        if op == "stack":
            dims: tuple[Dim, ...] = (*before, count, *behind)
        else:
            dims = (*before, count + behind[0], *behind[1:])
        put = np.stack if op == "stack" else np.concatenate
        value = put([x.wide.value for x in parts], dim)
        error = put([x.wide.error for x in parts], dim)
        return Value(first.dtype, dims, Bounded(first.wide.dtype, value, error))

    return rule


def select(program: Program, x: Any, index: int, dim: int) -> Value:
    tensor = as_tensor(x)
    extent = program.extent(tensor.dims[dim])
    require(-extent <= index < extent, "there is no such element")
    left = [each for d, each in enumerate(tensor.dims) if d != dim % len(tensor.dims)]
    return _elsewhere(tensor, left, lambda v: np.take(v, index, dim))


def indices(index: Value, extent: int) -> np.ndarray:
    found = index.narrow()
    require(index.dtype in (DataType.Int, DataType.Int32), "indices are integers")
    require(not found.unknown.any(), "indices are known")
    require(bool(((found.value >= 0) & (found.value < extent)).all()), "indices are inside")
    return found.value


def index_select(program: Program, x: Any, index: Any, dim: int) -> Value:
    tensor, chosen = as_tensor(x), as_tensor(index)
    require(len(chosen.dims) == 1, "indices of one dimension")
    places = indices(chosen, program.extent(tensor.dims[dim]))
    dims = [*tensor.dims[:dim], chosen.dims[0], *tensor.dims[dim + 1 :]]
    return _elsewhere(tensor, dims, lambda v: np.take(v, places, dim))


def embedding(program: Program, index: Any, weight: Any) -> Value:
    chosen, rows = as_tensor(index), as_tensor(weight)
    require(len(rows.dims) == 2, "a matrix")
    places = indices(chosen, program.extent(rows.dims[0]))
    return _elsewhere(rows, (*chosen.dims, rows.dims[1]), lambda v: v[places])


def gather(program: Program, x: Any, index: Any, dim: int) -> Value:
    """`gather` and `take_along_axis`, of an index of the tensor's own dimensions."""
    tensor, chosen = as_tensor(x), as_tensor(index)
    require(tensor.dims == chosen.dims, "an index of each element")
    places = indices(chosen, program.extent(tensor.dims[dim]))
    return _elsewhere(tensor, tensor.dims, lambda v: np.take_along_axis(v, places, dim))


def one_hot(program: Program, x: Any, classes: Extent) -> Value:
    tensor = as_tensor(x)
    require(tensor.dtype in (DataType.Int, DataType.Int32), "integers")
    found = tensor.narrow()
    hot = found.value[..., None] == np.arange(program.extent(classes.dim))
    error = np.broadcast_to(found.error[..., None], hot.shape)
    return Value(
        DataType.Int,
        (*tensor.dims, classes.dim),
        Bounded(DataType.Int, hot.astype(np.int64), error),
    )


def _running(values: np.ndarray, axis: int) -> np.ndarray:
    return np.maximum.accumulate(values, axis)


def running_extreme(op: str) -> Callable[..., tuple[Value, Value]]:
    """`cummax` and `cummin`: where errors, or a NaN, could move the place, it is unknown."""
    best = np.maximum if op == "cummax" else np.minimum

    def rule(program: Program, x: Any, dim: int) -> tuple[Value, Value]:
        tensor = as_tensor(x)
        axis = dim % len(tensor.dims)
        source = operand(tensor, tensor.dtype.compute)
        with np.errstate(all="ignore"):
            value = best.accumulate(source.value, axis)
            own = np.arange(value.shape[axis]).reshape(
                [-1 if d == axis else 1 for d in range(value.ndim)]
            )
            place = _running(np.where(source.value == value, own, 0), axis)
        error = _running(source.error, axis)
        doubtful = error > 0
        if tensor.dtype.is_float:
            doubtful = doubtful | np.isnan(value)
            extreme = bounds.settled(source.dtype, value, np.where(np.isnan(value), 0.0, error))
        else:
            extreme = Bounded(tensor.dtype, value, error)
        where = Bounded(DataType.Int, place, np.where(doubtful, np.inf, 0.0))
        return Value(tensor.dtype, tensor.dims, extreme), Value(DataType.Int, tensor.dims, where)

    return rule


def cumprod(program: Program, x: Any, dim: int) -> Value:
    tensor = as_tensor(x)
    require(tensor.dtype.is_float, "type")
    compute, axis = tensor.dtype.compute, dim % len(tensor.dims)
    source = operand(tensor, compute)
    count = np.arange(1, source.value.shape[axis] + 1).reshape(
        [-1 if d == axis else 1 for d in range(source.value.ndim)]
    )
    with np.errstate(all="ignore"):
        size = np.abs(source.value)
        outer_ = np.cumprod(size + source.error, axis)
        error = outer_ - np.cumprod(size, axis) + 2 * count * bounds.UNIT[compute] * outer_
        high, low = (np.cumprod(f(size, 1.0), axis) for f in (np.maximum, np.minimum))
        odd = (high > bounds.LARGEST[compute] / 8) | (low < 1e3 * bounds.SMALLEST[compute])
        odd |= ~np.isfinite(outer_)
        value = np.cumprod(source.value, axis)
    error = np.where(odd, np.inf, error + bounds.SMALLEST[compute])
    return Value(tensor.dtype, tensor.dims, bounds.settled(compute, value, error))


def logcumsumexp(program: Program, x: Any, dim: int) -> Value:
    tensor = as_tensor(x)
    require(tensor.dtype.is_float, "type")
    compute, axis = tensor.dtype.compute, dim % len(tensor.dims)
    source = operand(tensor, compute)
    known = np.isfinite(source.value)
    size = _running(np.where(known, np.abs(source.value), 0.0), axis)
    with np.errstate(all="ignore"):
        value = np.logaddexp.accumulate(source.value, axis)
        terms = np.sqrt(np.arange(1, source.value.shape[axis] + 1)).reshape(
            [-1 if d == axis else 1 for d in range(value.ndim)]
        )
        error = _running(source.error, axis)
        error = error + bounds.UNIT[compute] * (32 + 8 * terms + 8 * size + 8 * np.abs(value))
        odd = ~np.logical_and.accumulate(known, axis)
    error = np.where(odd, np.inf, error)
    return Value(tensor.dtype, tensor.dims, bounds.settled(compute, value, error))


def truth(op: str) -> Callable[..., Value]:
    """`any` and `all`: one element that decides is enough to know."""
    decisive = op == "any"

    def rule(
        program: Program, x: Any, dims: Sequence[int] | None = None, keepdim: bool = False
    ) -> Value:
        tensor = as_tensor(x)
        found = bounds.converted(tensor.narrow(), DataType.Bool)
        gone = tuple(range(len(tensor.dims))) if dims is None else tuple(dims)
        require(len({d % len(tensor.dims) for d in gone}) == len(gone), "a dimension twice")
        decided = ((found.value == decisive) & ~found.unknown).any(gone, keepdims=keepdim)
        doubtful = found.unknown.any(gone, keepdims=keepdim) & ~decided
        reduced = {d % len(tensor.dims) for d in gone}
        left = [
            () if d in reduced else each
            for d, each in enumerate(tensor.dims)
            if keepdim or d not in reduced
        ]
        value = decided if decisive else ~decided
        return Value(
            DataType.Bool,
            tuple(left),
            Bounded(DataType.Bool, value, np.where(doubtful, np.inf, 0.0)),
        )

    return rule
