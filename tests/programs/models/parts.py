"""Layers in plain operations, and their gradients written out by hand.

Activations are `[batch, places, features]`, heads `[batch, heads, places, features]`; weights of
`linear` are `[out, in]`. A gradient takes what its layer took, computes again what it needs, and
returns one tensor for each operand that has one.
"""

import math
from collections.abc import Sequence
from typing import Any

from warpsmith import ops
from warpsmith.ir.dtypes import DataType

Tensor = Any  # `warpsmith.ir.tensor.TensorView`, with the operators of the frontends


def rows(x: Tensor) -> Tensor:
    """All but the last dimension as one."""
    return ops.reshape(x, [-1, ops.size(x, -1)])


def linear_gradient(dy: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Of x and of the weight."""
    return ops.matmul(dy, weight), ops.matmul(ops.transpose(rows(dy), 0, 1), rows(x))


def projection_gradients(
    gradients: Sequence[Tensor], x: Tensor, weights: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """Of x, from which heads were projected by each of the weights, and of these."""
    dx, found = None, []
    for gradient, weight in zip(gradients, weights, strict=True):
        d, dweight = linear_gradient(merged(gradient), x, weight)
        dx = d if dx is None else dx + d
        found.append(dweight)
    return dx, found


def bias_gradient(dy: Tensor) -> Tensor:
    return ops.sum(dy, list(range(dy.rank - 1)))


def product_gradient(dy: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Of x and of the weight `[in, out]` in `x @ weight`."""
    dx = ops.matmul(dy, ops.transpose(weight, 0, 1))
    return dx, ops.matmul(ops.transpose(rows(x), 0, 1), rows(dy))


# --- norms -------------------------------------------------------------------------------------


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    variance, mean = ops.var_mean(x, [-1], 0, True)
    return (x - mean) * ops.rsqrt(variance + eps) * weight + bias


def layer_norm_gradient(
    dy: Tensor, x: Tensor, weight: Tensor, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor]:
    """Of x, the weight and the bias."""
    variance, mean = ops.var_mean(x, [-1], 0, True)
    scale = ops.rsqrt(variance + eps)
    normal = (x - mean) * scale
    given = dy * weight
    inner = given - ops.mean(given, [-1], True) - normal * ops.mean(given * normal, [-1], True)
    return inner * scale, bias_gradient(dy * normal), bias_gradient(dy)


def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    return x * ops.rsqrt(ops.mean(x * x, [-1], True) + eps) * weight


def rms_norm_gradient(
    dy: Tensor, x: Tensor, weight: Tensor, eps: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """Of x and of the weight."""
    scale = ops.rsqrt(ops.mean(x * x, [-1], True) + eps)
    normal = x * scale
    given = dy * weight
    dx = (given - normal * ops.mean(given * normal, [-1], True)) * scale
    return dx, bias_gradient(dy * normal)


# --- activations -------------------------------------------------------------------------------

_ROOT = math.sqrt(2 / math.pi)


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + ops.erf(x * math.sqrt(0.5)))


def gelu_gradient(dy: Tensor, x: Tensor) -> Tensor:
    density = ops.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))
    return dy * (0.5 * (1 + ops.erf(x * math.sqrt(0.5))) + x * density)


def tanh_gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + ops.tanh(_ROOT * (x + 0.044715 * x * x * x)))


def tanh_gelu_gradient(dy: Tensor, x: Tensor) -> Tensor:
    t = ops.tanh(_ROOT * (x + 0.044715 * x * x * x))
    slope = _ROOT * (1 + 3 * 0.044715 * x * x)
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope)


def silu_gradient(dy: Tensor, x: Tensor) -> Tensor:
    s = ops.sigmoid(x)
    return dy * s * (1 + x * (1 - s))


# --- attention ---------------------------------------------------------------------------------


def heads_of(x: Tensor, heads: int) -> Tensor:
    """`[batch, places, heads * features]` as heads."""
    shape = [ops.size(x, 0), ops.size(x, 1), heads, -1]
    return ops.permute(ops.reshape(x, shape), [0, 2, 1, 3])


def merged(x: Tensor) -> Tensor:
    """The other way round."""
    y = ops.permute(x, [0, 2, 1, 3])
    return ops.reshape(y, [ops.size(y, 0), ops.size(y, 1), -1])


def earlier(x: Tensor) -> Tensor:
    """Of places `[places, places]`, whether the second is not after the first."""
    count = ops.size(x, 1)
    first, second = (ops.iota(count, fusion=x.fusion) for _ in range(2))
    return ops.ge(ops.broadcast(first, [False, True]), ops.broadcast(second, [True, False]))


def softmax(x: Tensor) -> Tensor:
    power = ops.exp(x - ops.max(x, [-1], True))
    return power / ops.sum(power, [-1], True)


def chances(
    q: Tensor, k: Tensor, scale: float, mask: Tensor | None, bias: Tensor | None = None
) -> Tensor:
    """`softmax(q k^T scale + bias)` where the mask holds."""
    scores = ops.matmul(q, ops.transpose(k, -2, -1)) * scale
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = ops.where(mask, scores, -1e4)
    return softmax(scores)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Unfused, of heads; keys and values may have fewer heads than queries: `groups`."""
    p = chances(q, k, scale, mask, bias)
    return ops.matmul(ops.cast(p, v.dtype), v)


def attention_gradient(
    dy: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of q, k, v and of the scores (which is the bias's, before it is summed over batches)."""
    p = chances(q, k, scale, mask, bias)
    rounded = ops.cast(p, v.dtype)
    dv = ops.matmul(ops.transpose(rounded, -2, -1), dy)
    dp = ops.matmul(dy, ops.transpose(v, -2, -1))
    ds = p * (dp - ops.sum(dp * p, [-1], True))
    if mask is not None:
        ds = ops.where(mask, ds, 0.0)
    scaled = ops.cast(ds * scale, q.dtype)
    return ops.matmul(scaled, k), ops.matmul(ops.transpose(scaled, -2, -1), q), dv, ds


def grouped(q: Tensor, groups: int) -> Tensor:
    """Queries `[batch, heads, ..]` as `[batch, key heads, groups, ..]`."""
    b, h, s = (ops.size(q, d) for d in range(3))
    return ops.reshape(q, [b, h // groups, groups, s, -1])


def ungrouped(q: Tensor) -> Tensor:
    """The other way round."""
    b, h, g, s = (ops.size(q, d) for d in range(4))
    return ops.reshape(q, [b, h * g, s, -1])


def once(k: Tensor) -> Tensor:
    """Keys or values for all queries of their group: a dimension of 1 behind the heads."""
    return ops.broadcast(k, [False, False, True, False, False])


# --- positions ---------------------------------------------------------------------------------


def turned(x: Tensor) -> Tensor:
    """`(-second half, first half)` of the features; its transpose is its negative."""
    b, h, s = (ops.size(x, d) for d in range(3))
    halves = ops.reshape(x, [b, h, s, 2, -1])
    wide = ops.broadcast(halves, [False, False, False, True, False, False])
    row, column = (ops.iota(2, fusion=x.fusion) for _ in range(2))
    signs = ops.broadcast(column, [True, False]) - ops.broadcast(row, [False, True])
    by_sign = ops.broadcast(ops.cast(-signs, DataType.Float), [False, False, True])
    return ops.reshape(ops.cast(ops.sum(wide * by_sign, [4]), x.dtype), [b, h, s, -1])


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Heads turned by their places' angles; cos and sin are `[places, features]`."""
    return x * cos + turned(x) * sin


def rope_gradient(dy: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return dy * cos - turned(dy * sin)
