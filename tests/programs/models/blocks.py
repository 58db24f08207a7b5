"""Blocks of known models, forward and backward, as functions of tensors.

`x` is `[batch, places, features]`; weights follow. A backward takes the gradient of the result,
then what the forward takes, and returns the gradients of x and of the weights, in their order.
"""

import math
from typing import Any

from tests.programs.models import parts
from tests.programs.models.parts import Tensor
from warpsmith import ops

EPS_BERT = 1e-12


# --- GPT-2 -------------------------------------------------------------------------------------


def gpt2(heads: int, features: int) -> tuple[Any, Any]:
    """LayerNorm first, products with `[in, out]` weights, causal attention, GELU by tanh."""
    scale = 1 / math.sqrt(features // heads)

    def attended(x: Tensor, w: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        n1, b1, wq, bq, wk, bk, wv, bv, *_ = w
        n = parts.layer_norm(x, n1, b1)
        q, k, v = (
            parts.heads_of(ops.matmul(n, weight) + bias, heads)
            for weight, bias in ((wq, bq), (wk, bk), (wv, bv))
        )
        return n, q, k, v

    def forward(x: Tensor, *w: Tensor) -> Tensor:
        *_, wo, bo, n2, b2, w1, c1, w2, c2 = w
        _, q, k, v = attended(x, w)
        a = parts.merged(parts.attention(q, k, v, scale, parts.earlier(x)))
        h = x + ops.matmul(a, wo) + bo
        m = parts.tanh_gelu(ops.matmul(parts.layer_norm(h, n2, b2), w1) + c1)
        return h + ops.matmul(m, w2) + c2

    def backward(dy: Tensor, x: Tensor, *w: Tensor) -> tuple[Tensor, ...]:
        n1, _, wq, _, wk, _, wv, _, wo, bo, n2, b2, w1, c1, w2, _ = w
        n, q, k, v = attended(x, w)
        mask = parts.earlier(x)
        a = parts.merged(parts.attention(q, k, v, scale, mask))
        h = x + ops.matmul(a, wo) + bo
        normal = parts.layer_norm(h, n2, b2)
        inner = ops.matmul(normal, w1) + c1
        dm, dw2 = parts.product_gradient(dy, parts.tanh_gelu(inner), w2)
        dinner = parts.tanh_gelu_gradient(dm, inner)
        dnormal, dw1 = parts.product_gradient(dinner, normal, w1)
        dh, dn2, db2 = parts.layer_norm_gradient(dnormal, h, n2)
        dh = dh + dy
        da, dwo = parts.product_gradient(dh, a, wo)
        dq, dk, dv, _ = parts.attention_gradient(parts.heads_of(da, heads), q, k, v, scale, mask)
        each = []
        dn = None
        for gradient, weight in ((dq, wq), (dk, wk), (dv, wv)):
            given = parts.merged(gradient)
            d, dweight = parts.product_gradient(given, n, weight)
            dn = d if dn is None else dn + d
            each += [dweight, parts.bias_gradient(given)]
        dx, dn1, db1 = parts.layer_norm_gradient(dn, x, n1)
        ends = (dwo, parts.bias_gradient(dh), dn2, db2, dw1, parts.bias_gradient(dinner))
        return (dx + dh, dn1, db1, *each, *ends, dw2, parts.bias_gradient(dy))

    return forward, backward


# --- Llama and Qwen ----------------------------------------------------------------------------


def llama(heads: int, groups: int, features: int, normed: bool = False) -> tuple[Any, Any]:
    """RMSNorm first, turned heads, several queries to a key, SwiGLU. `normed`: Qwen's QK norm.

    Weights: norm, wq, wk, wv, wo, norm, gate, up, down, then those of the q and k norms; cos and
    sin come before them and have no gradients.
    """
    scale = 1 / math.sqrt(features // heads)

    def projected(
        n: Tensor, cos: Tensor, sin: Tensor, w: tuple[Tensor, ...]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Heads before norm and turn, and q, k, v as attention takes them."""
        plain = [
            parts.heads_of(ops.linear(n, weight), count)
            for weight, count in zip(w[1:4], (heads, heads // groups, heads // groups), strict=True)
        ]
        q, k, v = plain
        if normed:
            q, k = parts.rms_norm(q, w[9]), parts.rms_norm(k, w[10])
        q, k = parts.rope(q, cos, sin), parts.rope(k, cos, sin)
        return plain, [parts.grouped(q, groups), parts.once(k), parts.once(v)]

    def forward(x: Tensor, cos: Tensor, sin: Tensor, *w: Tensor) -> Tensor:
        _, qkv = projected(parts.rms_norm(x, w[0]), cos, sin, w)
        a = parts.attention(*qkv, scale, parts.earlier(x))
        h = x + ops.linear(parts.merged(parts.ungrouped(a)), w[4])
        m = parts.rms_norm(h, w[5])
        return h + ops.linear(ops.silu(ops.linear(m, w[6])) * ops.linear(m, w[7]), w[8])

    def backward(dy: Tensor, x: Tensor, cos: Tensor, sin: Tensor, *w: Tensor) -> tuple[Tensor, ...]:
        n = parts.rms_norm(x, w[0])
        plain, (q, k, v) = projected(n, cos, sin, w)
        mask = parts.earlier(x)
        a = parts.merged(parts.ungrouped(parts.attention(q, k, v, scale, mask)))
        h = x + ops.linear(a, w[4])
        m = parts.rms_norm(h, w[5])
        gate, up = ops.linear(m, w[6]), ops.linear(m, w[7])
        dproduct, ddown = parts.linear_gradient(dy, ops.silu(gate) * up, w[8])
        dgate = parts.silu_gradient(dproduct * up, gate)
        from_gate, dwgate = parts.linear_gradient(dgate, m, w[6])
        from_up, dwup = parts.linear_gradient(dproduct * ops.silu(gate), m, w[7])
        dh, dnorm = parts.rms_norm_gradient(from_gate + from_up, h, w[5])
        dh = dh + dy
        da, dwo = parts.linear_gradient(dh, a, w[4])
        given = parts.grouped(parts.heads_of(da, heads), groups)
        dq, dk, dv, _ = parts.attention_gradient(given, q, k, v, scale, mask)
        dk, dv = ops.sum(dk, [2]), ops.sum(dv, [2])
        dq = parts.rope_gradient(parts.ungrouped(dq), cos, sin)
        dk = parts.rope_gradient(dk, cos, sin)
        norms: tuple[Tensor, ...] = ()
        if normed:
            dq, dqnorm = parts.rms_norm_gradient(dq, plain[0], w[9])
            dk, dknorm = parts.rms_norm_gradient(dk, plain[1], w[10])
            norms = (dqnorm, dknorm)
        dn, weights = parts.projection_gradients((dq, dk, dv), n, w[1:4])
        dx, dfirst = parts.rms_norm_gradient(dn, x, w[0])
        return (dx + dh, dfirst, *weights, dwo, dnorm, dwgate, dwup, ddown, *norms)

    return forward, backward


# --- BERT and ViT ------------------------------------------------------------------------------


def encoder(heads: int, features: int, first: bool) -> tuple[Any, Any]:
    """Attention to all places, GELU by erf; norms `first` as in ViT, or last as in BERT.

    BERT's takes a mask `[batch, 1, 1, places]` of places that exist, before the weights: wq, bq,
    wk, bk, wv, bv, wo, bo, norm and bias, w1, c1, w2, c2, norm and bias.
    """
    scale = 1 / math.sqrt(features // heads)
    eps = 1e-6 if first else EPS_BERT

    def split(mask_and_weights: tuple[Tensor, ...]) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        return (None, mask_and_weights) if first else (mask_and_weights[0], mask_and_weights[1:])

    def projected(n: Tensor, w: tuple[Tensor, ...]) -> list[Tensor]:
        return [parts.heads_of(ops.linear(n, w[k], w[k + 1]), heads) for k in (0, 2, 4)]

    def forward(x: Tensor, *rest: Tensor) -> Tensor:
        mask, w = split(rest)
        n = parts.layer_norm(x, w[8], w[9], eps) if first else x
        a = parts.merged(parts.attention(*projected(n, w), scale, mask))
        h = x + ops.linear(a, w[6], w[7])
        if not first:
            h = parts.layer_norm(h, w[8], w[9], eps)
        n = parts.layer_norm(h, w[14], w[15], eps) if first else h
        y = h + ops.linear(parts.gelu(ops.linear(n, w[10], w[11])), w[12], w[13])
        return y if first else parts.layer_norm(y, w[14], w[15], eps)

    def backward(dy: Tensor, x: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        mask, w = split(rest)
        n1 = parts.layer_norm(x, w[8], w[9], eps) if first else x
        q, k, v = projected(n1, w)
        a = parts.merged(parts.attention(q, k, v, scale, mask))
        total = x + ops.linear(a, w[6], w[7])
        h = total if first else parts.layer_norm(total, w[8], w[9], eps)
        n2 = parts.layer_norm(h, w[14], w[15], eps) if first else h
        inner = ops.linear(n2, w[10], w[11])
        active = parts.gelu(inner)
        if first:
            dend = dy
        else:
            end = h + ops.linear(active, w[12], w[13])
            dend, dn2, db2 = parts.layer_norm_gradient(dy, end, w[14], eps)
        dactive, dw2 = parts.linear_gradient(dend, active, w[12])
        dinner = parts.gelu_gradient(dactive, inner)
        dn, dw1 = parts.linear_gradient(dinner, n2, w[10])
        if first:
            dn, dn2, db2 = parts.layer_norm_gradient(dn, h, w[14], eps)
        dh = dn + dend
        if not first:
            dh, dn1, db1 = parts.layer_norm_gradient(dh, total, w[8], eps)
        da, dwo = parts.linear_gradient(dh, a, w[6])
        dq, dk, dv, _ = parts.attention_gradient(parts.heads_of(da, heads), q, k, v, scale, mask)
        each = []
        dnormal = None
        for gradient, weight in ((dq, w[0]), (dk, w[2]), (dv, w[4])):
            given = parts.merged(gradient)
            d, dweight = parts.linear_gradient(given, n1, weight)
            dnormal = d if dnormal is None else dnormal + d
            each += [dweight, parts.bias_gradient(given)]
        if first:
            dnormal, dn1, db1 = parts.layer_norm_gradient(dnormal, x, w[8], eps)
        ends = (dwo, parts.bias_gradient(dh), dn1, db1, dw1, parts.bias_gradient(dinner))
        return (dnormal + dh, *each, *ends, dw2, parts.bias_gradient(dend), dn2, db2)

    return forward, backward


# --- T5 ----------------------------------------------------------------------------------------


def t5(heads: int) -> tuple[Any, Any]:
    """RMSNorm, scores that are not scaled but have a bias `[1, heads, places, places]`, gated GELU.

    The bias, which has a gradient, comes before the weights: norm, wq, wk, wv, wo, norm, gate, up,
    down.
    """

    def forward(x: Tensor, bias: Tensor, *w: Tensor) -> Tensor:
        n = parts.rms_norm(x, w[0])
        q, k, v = (parts.heads_of(ops.linear(n, weight), heads) for weight in w[1:4])
        h = x + ops.linear(parts.merged(parts.attention(q, k, v, 1.0, None, bias)), w[4])
        m = parts.rms_norm(h, w[5])
        return h + ops.linear(parts.tanh_gelu(ops.linear(m, w[6])) * ops.linear(m, w[7]), w[8])

    def backward(dy: Tensor, x: Tensor, bias: Tensor, *w: Tensor) -> tuple[Tensor, ...]:
        n = parts.rms_norm(x, w[0])
        q, k, v = (parts.heads_of(ops.linear(n, weight), heads) for weight in w[1:4])
        a = parts.merged(parts.attention(q, k, v, 1.0, None, bias))
        h = x + ops.linear(a, w[4])
        m = parts.rms_norm(h, w[5])
        gate, up = ops.linear(m, w[6]), ops.linear(m, w[7])
        dproduct, ddown = parts.linear_gradient(dy, parts.tanh_gelu(gate) * up, w[8])
        dgate = parts.tanh_gelu_gradient(dproduct * up, gate)
        from_gate, dwgate = parts.linear_gradient(dgate, m, w[6])
        from_up, dwup = parts.linear_gradient(dproduct * parts.tanh_gelu(gate), m, w[7])
        dh, dnorm = parts.rms_norm_gradient(from_gate + from_up, h, w[5])
        dh = dh + dy
        da, dwo = parts.linear_gradient(dh, a, w[4])
        dq, dk, dv, ds = parts.attention_gradient(
            parts.heads_of(da, heads), q, k, v, 1.0, None, bias
        )
        dn, weights = parts.projection_gradients((dq, dk, dv), n, w[1:4])
        dx, dfirst = parts.rms_norm_gradient(dn, x, w[0])
        dbias = ops.sum(ds, [0], True)
        return (dx + dh, dbias, dfirst, *weights, dwo, dnorm, dwgate, dwup, ddown)

    return forward, backward


# --- DLRM --------------------------------------------------------------------------------------


def dlrm() -> tuple[Any, Any]:
    """Dense features through a bottom MLP, dot products with embeddings, and a top MLP.

    Takes dense `[batch, in]`, embeddings `[batch, tables, features]`, then w1, b1, w2, b2 of the
    bottom, the top's first weight in three parts (for the dense ones, the dot products with them,
    those among embeddings), b3, and w4 `[1, hidden]` and b4.
    """

    def features(dense: Tensor, w: tuple[Tensor, ...]) -> tuple[Tensor, Tensor, Tensor]:
        hidden = ops.linear(dense, w[0], w[1])
        bottom = ops.linear(ops.relu(hidden), w[2], w[3])
        return hidden, bottom, ops.relu(bottom)

    def joined(z: Tensor, e: Tensor, w: tuple[Tensor, ...]) -> tuple[Tensor, Tensor, Tensor]:
        dots = ops.sum(ops.broadcast(z, [False, True, False]) * e, [2])
        pairs = ops.matmul(e, ops.transpose(e, -2, -1))
        flat = ops.reshape(pairs, [ops.size(e, 0), -1])
        hidden = ops.linear(z, w[4]) + ops.linear(dots, w[5]) + ops.linear(flat, w[6]) + w[7]
        return dots, flat, hidden

    def forward(dense: Tensor, e: Tensor, *w: Tensor) -> Tensor:
        _, _, z = features(dense, w)
        _, _, hidden = joined(z, e, w)
        return ops.sigmoid(ops.linear(ops.relu(hidden), w[8], w[9]))

    def backward(dy: Tensor, dense: Tensor, e: Tensor, *w: Tensor) -> tuple[Tensor, ...]:
        first, bottom, z = features(dense, w)
        dots, flat, hidden = joined(z, e, w)
        active = ops.relu(hidden)
        y = ops.sigmoid(ops.linear(active, w[8], w[9]))
        dlast = dy * y * (1 - y)
        dactive, dw8 = parts.linear_gradient(dlast, active, w[8])
        dhidden = ops.where(hidden > 0, dactive, 0.0)
        dz, dw4 = parts.linear_gradient(dhidden, z, w[4])
        ddots, dw5 = parts.linear_gradient(dhidden, dots, w[5])
        dflat, dw6 = parts.linear_gradient(dhidden, flat, w[6])
        b, f = ops.size(e, 0), ops.size(e, 1)
        dpairs = ops.reshape(dflat, [b, f, f])
        wide = ops.broadcast(ddots, [False, False, True])
        both = dpairs + ops.transpose(dpairs, -2, -1)
        de = ops.matmul(both, e) + wide * ops.broadcast(z, [False, True, False])
        dz = dz + ops.sum(wide * e, [1])
        dbottom = ops.where(bottom > 0, dz, 0.0)
        dfirst, dw2 = parts.linear_gradient(dbottom, ops.relu(first), w[2])
        dfirst = ops.where(first > 0, dfirst, 0.0)
        ddense, dw0 = parts.linear_gradient(dfirst, dense, w[0])
        tops = (dw4, dw5, dw6, parts.bias_gradient(dhidden), dw8, parts.bias_gradient(dlast))
        bottoms = (dw0, parts.bias_gradient(dfirst), dw2, parts.bias_gradient(dbottom))
        return (ddense, de, *bottoms, *tops)

    return forward, backward
