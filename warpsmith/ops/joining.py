"""NumPy meaning of rules that join states."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from warpsmith.ir.carry import Carry, moments
from warpsmith.ops.scalars import ScalarEvaluator, numpy_dtype
from warpsmith.ops.table import TABLE

State = tuple[np.ndarray, ...]


def join(carry: Carry, before: State, behind: State, *, precise: bool = False) -> State:
    """The states of both of two stretches, element by element of the arrays."""
    symbols = (*carry.symbols("a"), *carry.symbols("b"))
    values = {s.name: x for s, x in zip(symbols, (*before, *behind), strict=True)}
    computed = ScalarEvaluator(values, precise=precise)
    return tuple(map(computed, carry.join))


def reduced(
    carry: Carry, states: Sequence[np.ndarray], dims: Sequence[int], *, precise: bool = False
) -> State:
    """States joined over some dimensions; over nothing they are the identity.

    Neighbours are joined first, then pairs of them, and so on, so that rounding grows slowly.
    Moments of elements are those of their definition, which joins are held against.

    Args:
        states: an array for each value of a state; those of one element are the same everywhere.
        precise: compute floats in float64.
    """
    typed = _in_types(carry, states, precise)
    if carry == moments(carry.dtypes[0]) and not any(map(np.ndim, states[1:])):
        return _moments(typed[0], dims)
    arrays = np.broadcast_arrays(*typed)
    ufunc = _ufunc(carry)
    if ufunc is not None and all(arrays[0].shape[d] for d in dims):
        return (np.asarray(ufunc.reduce(arrays[0], axis=tuple(dims), dtype=arrays[0].dtype)),)
    kept = [d for d in range(arrays[0].ndim) if d not in dims]
    shape = [arrays[0].shape[d] for d in kept]
    count = math.prod(arrays[0].shape[d] for d in dims)
    flat = (x.transpose(*dims, *kept).reshape(count, *shape) for x in arrays)
    state = tuple(flat)
    while len(state[0]) > 1:
        half = len(state[0]) // 2
        pairs = join(
            carry,
            tuple(x[: 2 * half : 2] for x in state),
            tuple(x[1 : 2 * half : 2] for x in state),
            precise=precise,
        )
        state = tuple(np.concatenate([p, x[2 * half :]]) for p, x in zip(pairs, state, strict=True))
    if not len(state[0]):
        return tuple(
            np.full(shape, start.value, x.dtype)
            for start, x in zip(carry.identity, state, strict=True)
        )
    return tuple(x[0] for x in state)


def scanned(
    carry: Carry,
    states: Sequence[np.ndarray],
    dim: int,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    precise: bool = False,
) -> State:
    """States of all elements up to each along a dimension, or from each on.

    Each step joins stretches twice as long.
    """
    arrays = np.broadcast_arrays(*_in_types(carry, states, precise))
    state = tuple(np.moveaxis(x, dim, 0) for x in arrays)
    count = len(state[0])
    at = slice(None, None, -1) if reverse else slice(None)
    state = tuple(x[at] for x in state)
    length = 1
    while length < count:
        older, newer = tuple(x[:-length] for x in state), tuple(x[length:] for x in state)
        sides = (newer, older) if reverse else (older, newer)
        more = join(carry, *sides, precise=precise)
        state = tuple(np.concatenate([x[:length], y]) for x, y in zip(state, more, strict=True))
        length *= 2
    if exclusive and count:
        nothing = (np.full_like(x[:1], s.value) for x, s in zip(state, carry.identity, strict=True))
        state = tuple(np.concatenate([s, x[:-1]]) for s, x in zip(nothing, state, strict=True))
    return tuple(np.moveaxis(x[at], 0, dim) for x in state)


def _in_types(carry: Carry, states: Sequence[np.ndarray], precise: bool) -> list[np.ndarray]:
    return [
        np.asarray(state, numpy_dtype(dtype, precise=precise))
        for state, dtype in zip(states, carry.dtypes, strict=True)
    ]


def _ufunc(carry: Carry) -> np.ufunc | None:
    """NumPy's function of two arrays that joins states of one value, if it has one."""
    op = TABLE.get(carry.operation)
    meaning = getattr(op.numpy, "__wrapped__", None) if op is not None else None
    return meaning if isinstance(meaning, np.ufunc) else None


def _moments(array: np.ndarray, dims: Sequence[int]) -> State:
    axes = tuple(dims)
    count = array.dtype.type(math.prod(array.shape[d] for d in dims))
    mean = np.sum(array, axis=axes, keepdims=True) / count
    m2 = np.sum(np.square(array - mean), axis=axes)
    return np.squeeze(mean, axis=axes), m2, np.full(m2.shape, count)
