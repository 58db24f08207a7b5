"""The same blocks in PyTorch, whose autograd says what their gradients are."""

import torch
from torch.nn import functional

from tests.programs.models.blocks import EPS_BERT

T = torch.Tensor


def _heads(x: T, heads: int) -> T:
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def _merged(x: T) -> T:
    return x.transpose(1, 2).flatten(2)


def _norm(x: T, weight: T, bias: T, eps: float) -> T:
    return functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


def _rms(x: T, weight: T) -> T:
    return functional.rms_norm(x, x.shape[-1:], weight, 1e-6)


def gpt2(heads: int, x: T, *w: T) -> T:
    n = _norm(x, w[0], w[1], 1e-5)
    q, k, v = (_heads(n @ w[i] + w[i + 1], heads) for i in (2, 4, 6))
    a = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    h = x + _merged(a) @ w[8] + w[9]
    m = functional.gelu(_norm(h, w[10], w[11], 1e-5) @ w[12] + w[13], approximate="tanh")
    return h + m @ w[14] + w[15]


def _turned(x: T, cos: T, sin: T) -> T:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def llama(heads: int, groups: int, x: T, cos: T, sin: T, *w: T) -> T:
    n = _rms(x, w[0])
    q = _heads(n @ w[1].T, heads)
    k, v = (_heads(n @ w[i].T, heads // groups) for i in (2, 3))
    if len(w) > 9:
        q, k = _rms(q, w[9]), _rms(k, w[10])
    q, k = _turned(q, cos, sin), _turned(k, cos, sin)
    k, v = (t.repeat_interleave(groups, 1) for t in (k, v))
    h = x + _merged(functional.scaled_dot_product_attention(q, k, v, is_causal=True)) @ w[4].T
    m = _rms(h, w[5])
    return h + (functional.silu(m @ w[6].T) * (m @ w[7].T)) @ w[8].T


def _attended(heads: int, n: T, w: tuple[T, ...], mask: T | None) -> T:
    q, k, v = (_heads(functional.linear(n, w[i], w[i + 1]), heads) for i in (0, 2, 4))
    a = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return functional.linear(_merged(a), w[6], w[7])


def _mlp(x: T, w: tuple[T, ...]) -> T:
    return functional.linear(functional.gelu(functional.linear(x, w[10], w[11])), w[12], w[13])


def bert(heads: int, x: T, mask: T, *w: T) -> T:
    h = _norm(x + _attended(heads, x, w, mask), w[8], w[9], EPS_BERT)
    return _norm(h + _mlp(h, w), w[14], w[15], EPS_BERT)


def vit(heads: int, x: T, *w: T) -> T:
    h = x + _attended(heads, _norm(x, w[8], w[9], 1e-6), w, None)
    return h + _mlp(_norm(h, w[14], w[15], 1e-6), w)


def t5(heads: int, x: T, bias: T, *w: T) -> T:
    n = _rms(x, w[0])
    q, k, v = (_heads(n @ weight.T, heads) for weight in w[1:4])
    p = torch.softmax(q @ k.transpose(-2, -1) + bias, -1)
    h = x + _merged(p @ v) @ w[4].T
    m = _rms(h, w[5])
    return h + (functional.gelu(m @ w[6].T, approximate="tanh") * (m @ w[7].T)) @ w[8].T


def dlrm(dense: T, e: T, *w: T) -> T:
    z = functional.linear(dense, w[0], w[1]).relu()
    z = functional.linear(z, w[2], w[3]).relu()
    dots, pairs = (e * z[:, None]).sum(2), (e @ e.transpose(1, 2)).flatten(1)
    hidden = torch.cat((z, dots, pairs), 1) @ torch.cat((w[4], w[5], w[6]), 1).T + w[7]
    return functional.linear(hidden.relu(), w[8], w[9]).sigmoid()
