"""Rules of moves."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.programs.program import Dim, Program, Shape
from tests.programs.values import Value, as_tensor, require


def moved(x: Value, dims: Sequence[Dim], move: Callable[[np.ndarray], np.ndarray]) -> Value:
    return Value(x.dtype, tuple(dims), x.wide.moved(move))


def permute(program: Program, x: Any, order: Sequence[int]) -> Value:
    tensor = as_tensor(x)
    require(sorted(order) == list(range(len(tensor.dims))), "permutation")
    return moved(tensor, [tensor.dims[d] for d in order], lambda v: v.transpose(order))


def transpose(program: Program, x: Any, first: int = -2, second: int = -1) -> Value:
    rank = len(as_tensor(x).dims)
    require(-rank <= first < rank and -rank <= second < rank, "dimension")
    order = list(range(rank))
    order[first], order[second] = order[second], order[first]
    return permute(program, x, order)


def reshape(program: Program, x: Any, shape: Shape) -> Value:
    tensor = as_tensor(x)
    names = [sum(dims, ()) for dims in (tensor.dims, shape.dims)]
    require(names[0] == names[1], "elements")
    extents = program.shape(shape.dims)
    return moved(tensor, shape.dims, lambda v: v.reshape(extents))


def broadcast(program: Program, x: Any, flags: Sequence[bool]) -> Value:
    tensor = as_tensor(x)
    require(list(flags).count(False) == len(tensor.dims), "flags")
    new = tuple(d for d, flag in enumerate(flags) if flag)
    kept = iter(tensor.dims)
    dims = [() if flag else next(kept) for flag in flags]
    return moved(tensor, dims, lambda v: np.expand_dims(v, new))


def expand(program: Program, x: Any, shape: Shape) -> Value:
    tensor = as_tensor(x)
    require(len(shape.dims) == len(tensor.dims), "rank")
    pairs = zip(tensor.dims, shape.dims, strict=True)
    require(all(not old or old == new for old, new in pairs), "only 1 is expanded")
    extents = program.shape(shape.dims)
    return moved(tensor, shape.dims, lambda v: np.broadcast_to(v, extents))


def broadcast_in_dim(program: Program, x: Any, shape: Shape, where: Sequence[int]) -> Value:
    flags = [d not in where for d in range(len(shape.dims))]
    return expand(program, broadcast(program, x, flags), shape)


def squeeze(program: Program, x: Any, dims: Sequence[int]) -> Value:
    tensor = as_tensor(x)
    require(all(not tensor.dims[d] for d in dims), "only 1 is squeezed")
    kept = [dim for d, dim in enumerate(tensor.dims) if d not in dims]
    return moved(tensor, kept, lambda v: np.squeeze(v, tuple(dims)))


def stride_order(program: Program, x: Any, order: Sequence[int]) -> Value:
    tensor = as_tensor(x)
    require(sorted(order) == list(range(len(tensor.dims))), "order")
    return copied(program, x)


def copied(program: Program, x: Any) -> Value:
    tensor = as_tensor(x)
    return Value(tensor.dtype, tensor.dims, tensor.narrow())
