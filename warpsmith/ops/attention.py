"""Attention and its gradients, by products and what stands between them.

Each score is computed in the type that its operands are computed in, and rounded once, as an
operand of the second product. Rows of scores of which all are masked give zeros.
"""

from __future__ import annotations

import math

from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import TensorView
from warpsmith.ops import carries, pointwise, reductions
from warpsmith.ops.broadcasting import add_axes
from warpsmith.ops.factories import iota
from warpsmith.ops.products import matmul
from warpsmith.ops.promotion import cast_tensor
from warpsmith.ops.random import dropout
from warpsmith.ops.shape import transpose
from warpsmith.ops.values import Operand, Scalar, as_scalar, as_tensor

_OP = "attention"
Drawn = tuple[Operand, Operand]
"""Seed and offset of what is dropped."""


def attention(
    query: TensorView,
    key: TensorView,
    value: TensorView,
    bias: TensorView | None = None,
    mask: TensorView | None = None,
    *,
    is_causal: bool | Expr = False,
    scale: Scalar | None = None,
    dropped: Scalar = 0.0,
    drawn: Drawn = (0, 0),
) -> tuple[TensorView, TensorView]:
    """(`softmax(query @ key.T * scale + bias) @ value`, the logarithm of each row's sum).

    Of `query [..., m, d]`, `key [..., n, d]` and `value [..., n, e]` the first is `[..., m, e]` and
    the second `[..., m]`, in Float or Double.

    Args:
        bias: added to scores.
        mask: of Bool, where scores count; of floats, added as the bias is.
        is_causal: whether row i counts columns up to i alone; of a scalar, a call says.
        scale: of the products; `1 / sqrt(d)` by default.
        dropped, drawn: share of weights that is dropped, with the seed and offset of the numbers.
    """
    scores = _scores(query, key, bias, mask, is_causal, scale)
    total = carries.logsumexp(scores, [-1])
    weights = _dropped(_weights(scores, total), dropped, drawn)
    return matmul(cast_tensor(weights, value.dtype), value), total


def attention_backward(
    gradient: TensorView,
    query: TensorView,
    key: TensorView,
    value: TensorView,
    output: TensorView,
    total: TensorView,
    bias: TensorView | None = None,
    mask: TensorView | None = None,
    *,
    is_causal: bool | Expr = False,
    scale: Scalar | None = None,
    dropped: Scalar = 0.0,
    drawn: Drawn = (0, 0),
) -> tuple[TensorView, TensorView, TensorView]:
    """Gradients of query, key and value, from those of `attention`'s first result.

    Args:
        output, total: the results of `attention`; all else as it was given there.
    """
    dtype = query.dtype
    weights = _weights(_scores(query, key, bias, mask, is_causal, scale), total)
    wide = weights.dtype
    used = _dropped(weights, dropped, drawn)
    of_weights = _dropped(matmul(gradient, transpose(value), dtype=wide), dropped, drawn)
    product = pointwise.mul(cast_tensor(gradient, wide), cast_tensor(output, wide))
    rows = reductions.sum(product, [-1], keepdim=True)
    of_used = pointwise.mul(weights, pointwise.sub(of_weights, rows))
    of_scores = pointwise.mul(of_used, _factor(query, scale))
    narrow = cast_tensor(as_tensor(of_scores, _OP), dtype)
    return (
        matmul(narrow, key),
        matmul(transpose(narrow), query),
        matmul(transpose(cast_tensor(used, dtype)), gradient),
    )


def _scores(
    query: TensorView,
    key: TensorView,
    bias: TensorView | None,
    mask: TensorView | None,
    is_causal: bool | Expr,
    scale: Scalar | None,
) -> TensorView:
    """Scores of all pairs, in the type that they are computed in; minus infinity where masked."""
    made = matmul(query, transpose(key), dtype=query.dtype.compute)
    scores = as_tensor(pointwise.mul(made, _factor(query, scale)), _OP)
    for added in (bias, mask):
        if added is not None and added.dtype.is_float:
            scores = pointwise.add(scores, cast_tensor(added, scores.dtype))
        elif added is not None:
            scores = as_tensor(pointwise.where(added, scores, -math.inf), _OP)
    if _counts(is_causal):
        rows, columns = (
            iota(scores.shape_axes[d].extent, fusion=Fusion.of(scores)) for d in (-2, -1)
        )
        before = pointwise.le(add_axes(columns, (True, False)), add_axes(rows, (False, True)))
        if isinstance(is_causal, Expr):
            before = pointwise.logical_or(before, pointwise.logical_not(is_causal))
        scores = as_tensor(pointwise.where(before, scores, -math.inf), _OP)
    return scores


def _counts(option: object) -> bool:
    """Whether an option changes something, or may in a call."""
    return isinstance(option, Expr) or bool(option)


def _weights(scores: TensorView, total: TensorView) -> TensorView:
    """The softmax of scores whose rows' sums are known by their logarithms."""
    row = add_axes(total, (*(False,) * total.rank, True))
    made = pointwise.exp(pointwise.sub(scores, row))
    return as_tensor(pointwise.where(pointwise.eq(row, -math.inf), 0.0, made), _OP)


def _dropped(weights: TensorView, share: Scalar, drawn: Drawn) -> TensorView:
    """The weights, of which a share is zero and the others are larger."""
    if not _counts(share):
        return weights
    seed, offset = drawn
    return as_tensor(dropout(weights, share, rng_seed=seed, rng_offset=offset)[0], _OP)


def _factor(query: TensorView, scale: Scalar | None) -> Scalar:
    """The scale of the products, `1 / sqrt(d)` by default."""
    if scale is not None:
        return scale
    width = pointwise.cast(query.shape_axes[-1].extent, query.dtype.compute)
    return as_scalar(pointwise.rsqrt(width), _OP)
