"""Programs some values of which are better stored, or written by a kernel of their own."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from warpsmith import DataType, ops

BFLOAT = ml_dtypes.bfloat16
Body = Callable[..., Any]


def two_sums(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Rows and columns of what four tensors make."""
    total = a + b + c + d
    return ops.sum(total, 0), ops.sum(total, 1)


def centred(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Rows that no kernel keeps where they are long."""
    total = a + b + c + d
    return total - ops.mean(total, -1, keepdim=True)


def turned_by_angles(x: Any, places: Any, speeds: Any) -> Any:
    angles = ops.reshape(places, [-1, 1]) * ops.reshape(speeds, [1, -1])
    return x * ops.cos(angles) + x * ops.sin(angles)


def turned_in_16_bits(x: Any, y: Any, places: Any, speeds: Any) -> Any:
    """Tables of 16 bits, each of which two tensors are multiplied with in Float."""
    angles = ops.reshape(places, [-1, 1]) * ops.reshape(speeds, [1, -1])
    tables = [ops.cast(made(angles), DataType.BFloat16) for made in (ops.cos, ops.sin)]
    return tuple(x * tables[0] + x * tables[1] for x in (x, y))


def weighted(x: Any, y: Any) -> Any:
    """A softmax that is the same for all of a dimension that it lacks."""
    power = ops.exp(x - ops.max(x, -1, keepdim=True))
    return ops.broadcast(power / ops.sum(power, -1, keepdim=True), [False, True, False]) * y


def both_ways(x: Any) -> Any:
    return x + 1, ops.permute(x * 2, [1, 0]) + 0


def from_two_sides(x: Any, y: Any) -> Any:
    """Two tensors that lie along two other dimensions than the result."""
    return ops.permute(x, [2, 0, 1]) + ops.permute(y, [0, 2, 1]) + 0


def gradients(d: Any, gate: Any, up: Any) -> Any:
    """Of the halves of a gated unit."""
    share = ops.sigmoid(gate)
    return d * up * (share * (1 + gate * (1 - share))), d * gate * share


def gradients_both_ways(d: Any, gate: Any, up: Any) -> Any:
    found = gradients(d, gate, up)
    return *found, *(ops.permute(each, [1, 0]) + 0 for each in found)


def residual(x: Any, y: Any, w: Any) -> Any:
    """Two tensors that two kernels read, or one of them writes, and the other reads one."""
    total = x + y
    return ops.sum(total * w, 0), ops.sum(total, 1)


def norm_and_mask(ids: Any, table: Any, w: Any, count: Any, weight: Any) -> Any:
    """A norm that keeps what its gradient needs, beside a mask that no kernel computes at once: two
    of its dimensions come from one. A product reads the norm.
    """
    x = ops.embedding(ids, table)
    scale = ops.rsqrt(ops.mean(x * x, -1, keepdim=True) + 1e-6)
    places = count * 2
    mask = ops.reshape(places, [-1, 1]) >= ops.reshape(places, [1, -1])
    normed = ops.cast(x * scale * w, x.dtype)
    return x, scale, normed, mask, ops.linear(normed, weight)


def bias_by_distance(table: Any, here: Any, there: Any, lasts: Any) -> Any:
    """What heads add for a distance, `[queries, keys, heads]`, masks, and what they leave of it."""
    queries, keys = ops.reshape(here + 1, [-1, 1]), ops.reshape(there + 1, [1, -1])
    far = ops.neg(ops.minimum(keys - queries, 0))
    large = 16 + ops.cast(ops.log(ops.cast(far, DataType.Float) / 16) * 8, DataType.Int)
    bias = ops.embedding(ops.where(far < 16, far, ops.minimum(large, 31)), table)
    seen = ops.reshape(keys + 2, [1, 1, 1, -1]) <= ops.reshape(lasts * 2, [-1, 1, 1, 1])
    heads = ops.permute(bias, [2, 0, 1])
    return bias, seen, ops.where(seen, ops.broadcast(heads, [True, False, False, False]), -1.0)


def rows_become_columns(x: Any, weight: Any) -> Any:
    """A norm with what its gradient needs."""
    wide = ops.cast(x, DataType.Float)
    scale = ops.rsqrt(ops.mean(wide * wide, -1, keepdim=True) + 1e-6)
    return ops.permute((wide * scale * weight).to(x.dtype), [0, 2, 1]), scale


def channels_last(x: Any, weight: Any) -> Any:
    """A norm of each pixel's channels, which lie behind one another in the result alone."""
    wide = ops.permute(ops.cast(x, DataType.Float), (0, 2, 3, 1))
    apart = wide - ops.mean(wide, [-1], keepdim=True)
    variance = ops.mean(apart * apart, [-1], keepdim=True)
    return (apart * ops.rsqrt(variance + 1e-5) * weight).to(x.dtype)


def empty(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [np.empty(shape, BFLOAT) for shape in shapes]


FOUR = [(4096, 4096)] * 4
CASES: dict[str, tuple[Body, list[np.ndarray], list[tuple[str, int, int]]]] = {
    "several tensors are read once": (
        two_sums,
        empty(*FOUR),
        [("reduction", 4, 2), ("reduction", 1, 1)],
    ),
    "so for rows that no kernel keeps": (
        centred,
        empty(*[(16, 1 << 21)] * 4),
        [("reduction", 4, 2), ("pointwise", 2, 1)],
    ),
    "tables are made before they are broadcast": (
        turned_by_angles,
        empty((8, 32, 2048, 128), (2048,), (128,)),
        [("pointwise", 2, 2), ("pointwise", 3, 1)],
    ),
    "so are rows that are reduced": (
        weighted,
        empty((64, 4096), (64, 64, 4096)),
        [("inner_persistent", 1, 1), ("pointwise", 2, 1)],
    ),
    "a result across the others has its kernel": (
        both_ways,
        empty((4096, 4096)),
        [("pointwise", 1, 1), ("pointwise", 1, 1)],
    ),
    "a norm is one kernel, whatever is beside it": (
        norm_and_mask,
        [
            np.zeros((2, 2048), np.int64),
            *empty((32000, 4096), (4096,), (2048,), (64, 4096)),
        ],
        [
            ("inner_persistent", 3, 3),
            ("pointwise", 1, 2),
            ("pointwise", 2, 1),
            ("matmul", 2, 1),
        ],
    ),
    "so has one of many elements, among many that could be stored": (
        bias_by_distance,
        [*empty((32, 32)), *(np.zeros(n, np.int64) for n in (2048, 2048, 2))],
        [("pointwise", 3, 1), ("pointwise", 3, 2)],
    ),
    "several across the others have theirs": (
        gradients_both_ways,
        empty(*[(4096, 14336)] * 3),
        [("pointwise", 3, 2), ("pointwise", 3, 2)],
    ),
    "rows that become columns are turned by a kernel of their own": (
        rows_become_columns,
        empty((107, 196, 512), (512,)),
        [("reduction", 1, 1), ("pointwise", 3, 1)],
    ),
    "what is normed along columns is written along rows by a kernel of its own": (
        channels_last,
        empty((32, 384, 28, 28), (384,)),
        [("outer_persistent", 1, 2), ("pointwise", 4, 1)],
    ),
}
