"""Attention that goes through keys by tiles, each with a level of its own: online softmax."""

from __future__ import annotations

import math
from typing import Any

from warpsmith.ir import integers
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.tensor import TensorView
from warpsmith.ops import carries, pointwise, reductions
from warpsmith.ops.broadcasting import add_axes
from warpsmith.ops.promotion import cast_tensor
from warpsmith.ops.rules import CarryRule
from warpsmith.ops.shape import permute, transpose
from warpsmith.ops.tiles import inside, tiles
from warpsmith.ops.values import Operand, Scalar, as_tensor

KEYS = 128
"""Of a tile."""


def _joined(a: Any, b: Any) -> tuple[Any, Any, Any]:
    """Two stretches of keys, whose sums are scaled to the larger of their largest scores."""
    top = pointwise.maximum(a.top, b.top)
    of_a, of_b = (
        pointwise.where(pointwise.eq(s.top, top), 1.0, pointwise.exp(pointwise.sub(s.top, top)))
        for s in (a, b)
    )
    return (
        top,
        pointwise.add(pointwise.mul(a.total, of_a), pointwise.mul(b.total, of_b)),
        pointwise.add(pointwise.mul(a.sums, of_a), pointwise.mul(b.sums, of_b)),
    )


ONLINE = CarryRule(
    name="online_softmax",
    identity={"top": -math.inf, "total": 0.0, "sums": 0.0},
    join=_joined,
)
"""The largest score, and of the weights relative to it their sum and that of the values."""


def attention_in_tiles(
    query: TensorView,
    key: TensorView,
    value: TensorView,
    mask: TensorView | None = None,
    *,
    scale: Scalar | None = None,
) -> TensorView:
    """`softmax(query @ key.T * scale + mask) @ value` of a few rows, in Float.

    Of `query [.., m, d]`, `key [.., n, d]` and `value [.., n, e]` of 16 bits it is `[.., m, e]`.
    Weights are rounded before values are multiplied. Rows whose keys are all masked give zeros.

    Args:
        mask: `[.., 1 or m, n]`; of Bool, where keys count; of floats, added to scores.
        scale: of the products; `1 / sqrt(d)` by default.
    """
    n, wide = key.rank - 2, query.dtype.compute
    apart = (False,) * n
    keys, values = tiles(key, n, KEYS), tiles(value, n, KEYS)
    scores = _summed(
        add_axes(cast_tensor(keys, wide), (*apart, False, False, True, False)),
        add_axes(cast_tensor(query, wide), (*apart, True, True, False, False)),
    )  # .., tiles, keys, m
    scores = _float(pointwise.mul(scores, _usual(query) if scale is None else scale))
    if mask is not None:
        parts = permute(tiles(mask, n + 1, KEYS), (*range(n), n + 1, n + 2, n))
        masked = pointwise.where(parts, scores, -math.inf)
        scores = _float(pointwise.add(scores, parts) if mask.dtype.is_float else masked)
    there = inside(key.shape_axes[n].extent, KEYS, fusion=Fusion.of(key))
    there = add_axes(there, (*(True,) * n, False, False, True))
    scores = _float(pointwise.where(there, scores, -math.inf))
    top = _float(reductions.max(scores, [-2]))
    level = _float(pointwise.where(pointwise.eq(top, -math.inf), 0.0, top))
    spread = add_axes(level, (*apart, False, True, False))
    weights = _float(pointwise.exp(pointwise.sub(scores, spread)))
    total = _float(reductions.sum(weights, [-2]))
    narrow = cast_tensor(cast_tensor(weights, value.dtype), wide)
    sums = _summed(
        add_axes(transpose(cast_tensor(values, wide)), (*apart, False, False, True, False)),
        add_axes(transpose(narrow), (*apart, False, True, False, False)),
    )  # .., tiles, e, m
    beside = (*apart, False, True, False)
    _, total, sums = carries.reduce(
        [add_axes(top, beside), add_axes(total, beside), sums], ONLINE, [-3]
    )
    shares = pointwise.where(pointwise.eq(total, 0.0), 0.0, pointwise.truediv(sums, total))
    return transpose(_float(shares))


def _usual(query: TensorView) -> Operand:
    """`1 / sqrt(d)`."""
    extent = query.shape_axes[-1].extent
    depth = integers.constant(extent)
    if depth is not None:
        return 1 / math.sqrt(depth)
    return pointwise.rsqrt(pointwise.cast(extent, query.dtype.compute))


def _float(value: Operand) -> TensorView:
    return as_tensor(value, "attention_in_tiles")


def _summed(a: TensorView, b: TensorView) -> TensorView:
    """The sum of products along the last dimension."""
    return _float(reductions.sum(_float(pointwise.mul(a, b)), [-1]))
