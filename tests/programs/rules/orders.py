"""Rules of what orders elements, and of what writes to places that indices choose."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.programs import bounds
from tests.programs.bounds import Bounded
from tests.programs.program import Extent, Program
from tests.programs.rules.moves import moved
from tests.programs.rules.places import indices
from tests.programs.values import Value, as_tensor, operand, perhaps_stored, require
from warpsmith.ir.dtypes import DataType


def _order(tensor: Value, axis: int, descending: bool) -> np.ndarray:
    """Where elements of a dimension stand in order: equal ones as they came, NaNs as largest."""
    found = np.unique(tensor.narrow().value, return_inverse=True)[1]
    ranks = found.reshape(tensor.wide.value.shape)
    return np.argsort(-ranks if descending else ranks, axis, kind="stable")


def _chosen(tensor: Value, order: np.ndarray, dims: Any, axis: int) -> tuple[Value, Value]:
    """What an order chooses, and the order; nothing is known of it where errors could move it."""
    stored = perhaps_stored(tensor)
    doubtful = (stored.wide.error > 0).any(axis, keepdims=True)
    lost = np.broadcast_to(np.where(doubtful, np.inf, 0.0), order.shape)
    held = np.take_along_axis(stored.wide.value, order, axis)
    return (
        Value(tensor.dtype, tuple(dims), Bounded(stored.wide.dtype, held, lost)),
        Value(DataType.Int, tuple(dims), Bounded(DataType.Int, order, lost)),
    )


def sort(program: Program, x: Any, dim: int, descending: bool = False) -> tuple[Value, Value]:
    tensor = as_tensor(x)
    axis = dim % len(tensor.dims)
    return _chosen(tensor, _order(tensor, axis, descending), tensor.dims, axis)


def argsort(program: Program, x: Any, dim: int, descending: bool = False) -> Value:
    return sort(program, x, dim, descending)[1]


def topk(
    program: Program, x: Any, k: Extent, dim: int, largest: bool = True
) -> tuple[Value, Value]:
    tensor = as_tensor(x)
    axis, count = dim % len(tensor.dims), program.extent(k.dim)
    require(program.is_static(k.dim), "how many is known")
    require(count <= program.extent(tensor.dims[axis]), "so many")
    order = np.take(_order(tensor, axis, largest), np.arange(count), axis)
    dims = [*tensor.dims[:axis], k.dim, *tensor.dims[axis + 1 :]]
    return _chosen(tensor, order, dims, axis)


def _written(program: Program, x: Any, index: Any, dim: int) -> tuple[Value, int, np.ndarray]:
    tensor, told = as_tensor(x), as_tensor(index)
    axis = dim % len(tensor.dims)
    require(len(told.dims) == len(tensor.dims), "an index of each dimension")
    others = zip(tensor.dims, told.dims, range(len(tensor.dims)), strict=True)
    require(all(a == b for a, b, d in others if d != axis), "alike but for one dimension")
    return tensor, axis, indices(told, program.extent(tensor.dims[axis]))


def _along(program: Program, x: Any, index: Any, src: Any, dim: int) -> tuple[Value, Value]:
    """Indices of one dimension as those of each element of what is written."""
    tensor, told, given = as_tensor(x), as_tensor(index), as_tensor(src)
    axis = dim % len(tensor.dims)
    dims = (*tensor.dims[:axis], *told.dims, *tensor.dims[axis + 1 :])
    require(len(told.dims) == 1 and given.dims == dims, "one index of each part")
    shape = [-1 if d == axis else 1 for d in range(len(dims))]

    def repeated(v: np.ndarray) -> np.ndarray:
        return np.broadcast_to(v.reshape(shape), program.shape(dims))

    return tensor, moved(told, dims, repeated)


def scatter(program: Program, x: Any, index: Any, src: Any, dim: int) -> Value:
    tensor, axis, places = _written(program, x, index, dim)
    given = _source(src, as_tensor(index), tensor.dtype)
    held = perhaps_stored(tensor).wide
    value, error = (v.copy() for v in (bounds.converted(held, given.dtype).value, held.error))
    for k in range(places.shape[axis]):  # of several for one place the last
        row = np.take(places, [k], axis)
        np.put_along_axis(value, row, np.take(given.value, [k], axis), axis)
        np.put_along_axis(error, row, np.take(given.error, [k], axis), axis)
    return Value(tensor.dtype, tensor.dims, Bounded(given.dtype, value, error))


def _source(src: Any, told: Value, dtype: DataType) -> Bounded:
    if isinstance(src, Value):
        require(src.dims == told.dims and src.dtype is dtype, "what is written")
        return bounds.converted(perhaps_stored(src).wide, dtype.compute)
    found = operand(src, dtype.compute)
    shape = told.wide.value.shape
    return found.moved(lambda v: np.broadcast_to(v, shape))


def scatter_add(program: Program, x: Any, index: Any, src: Any, dim: int) -> Value:
    tensor, axis, places = _written(program, x, index, dim)
    require(tensor.dtype is not DataType.Bool, "numbers")
    compute = tensor.dtype.compute
    given, held = _source(src, as_tensor(index), tensor.dtype), operand(tensor, compute)
    total, error, size, count = (
        v.copy() for v in (held.value, held.error, np.abs(held.value), np.zeros(held.error.shape))
    )
    for k in range(places.shape[axis]):
        row = np.take(places, [k], axis)
        one, doubt = (np.take(v, [k], axis) for v in (given.value, given.error))
        for sums, added in (
            (total, one),
            (error, doubt),
            (size, np.abs(one)),
            (count, np.ones(doubt.shape)),
        ):
            before = np.take_along_axis(sums, row, axis)
            with np.errstate(all="ignore"):
                np.put_along_axis(sums, row, before + added, axis)
    if not compute.is_float:
        return Value(tensor.dtype, tensor.dims, Bounded(compute, total, error))
    with np.errstate(all="ignore"):
        error = error + (4 + 4 * count) * bounds.UNIT[compute] * size
    error = np.where(np.isfinite(size), error + bounds.SMALLEST[compute], np.inf)
    return Value(tensor.dtype, tensor.dims, bounds.settled(compute, total, error))


def by_rows(rule: Callable[..., Value]) -> Callable[..., Value]:
    """`index_add` of `scatter_add`, and `index_copy` of `scatter`."""

    def along(program: Program, x: Any, index: Any, src: Any, dim: int) -> Value:
        tensor, told = _along(program, x, index, src, dim)
        return rule(program, tensor, told, src, dim)

    return along


def embedding_backward(
    program: Program, grad: Any, index: Any, rows: Extent, padding_idx: int = -1
) -> Value:
    slopes, told = as_tensor(grad), as_tensor(index)
    require(slopes.dims[:-1] == told.dims and slopes.dtype.is_float, "a row of each index")
    count, width = int(np.prod(told.wide.value.shape)), program.extent(slopes.dims[-1])
    flat = (sum(told.dims, ()),)
    kept = told.narrow().value.reshape(count, 1) != padding_idx
    given = moved(
        slopes, (*flat, slopes.dims[-1]), lambda v: np.where(kept, v.reshape(count, width), 0)
    )
    dims = (rows.dim, slopes.dims[-1])
    nothing = Value(slopes.dtype, dims, bounds.exact(slopes.dtype, np.zeros(program.shape(dims))))
    which = moved(told, flat, lambda v: v.reshape(count))
    return by_rows(scatter_add)(program, nothing, which, given, 0)
