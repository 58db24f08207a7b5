"""Attention and its gradients by PyTorch's kernels.

Of tensors of 16 bits `[batch, heads, rows, columns]`; numbers of columns that are no multiples of 8
are filled with zeros, since its kernels for GPUs take none. Nor do those for CPUs look at sizes, or
take tensors without elements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from warpsmith.frontends.nvfuser_direct.failures import Refused

Order = Sequence[int] | None
"""Ranks of a tensor's dimensions in memory, 0 for the fastest; None where the last one is."""

_ROWS = {"query": "NHLE", "key": "NHSE", "value": "NHSV"}
_RESULTS = {"output's gradient": "NHLV", "output": "NHLV", "logarithm of the sums": "NHL"}
"""Dimensions of what is passed: those of one letter are equal."""


def forward(
    order: Order, query: Any, key: Any, value: Any, dropped: float, is_causal: bool, scale: Any
) -> tuple[Any, ...]:
    """(Attention, the logarithm of each row's sum, seed and offset of what was dropped)."""
    import torch

    scale = _scale(query, scale)
    _check(_ROWS, query, key, value)
    if is_by_products(dropped, is_causal, query, key, value):
        seed = int(torch.randint(0, 2**62, (1,)).item()) if dropped else 0
        made, total = _in_full(query, key, value, dropped, is_causal, scale, seed)
        state = tuple(torch.tensor(each, device=query.device) for each in ([seed, 0], 0))
    elif not query.is_cuda:
        made, total = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            *_even(1, query, key, value), 0.0, is_causal, scale=scale
        )
        state = torch.zeros(2, dtype=torch.int64), torch.tensor(0)
    else:
        found = torch.ops.aten._scaled_dot_product_flash_attention(
            *_even(8, query, key, value), dropped, is_causal, False, scale=scale
        )
        made, total = found[:2]
        state = found[6].view(torch.int64), found[7].view(torch.int64)
    return laid(made[..., : value.shape[-1]], order), total.contiguous(), *state


def with_scores(
    order: Order, query: Any, key: Any, value: Any, bias: Any, mask: Any, is_causal: Any, scale: Any
) -> tuple[Any]:
    """Attention whose scores are added to, and count where a mask says so."""
    import torch

    added = torch.zeros((), device=query.device) if bias is None else bias
    if mask is not None:
        added = added + torch.where(mask, 0.0, -math.inf).to(added.dtype)
    added = added.to(query.dtype)
    _check(_ROWS, query, key, value)
    if is_causal:
        added = added.masked_fill(_later(query, key), -math.inf)
    made = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=added, scale=scale
    )
    return (laid(made, order),)


def backward(
    orders: Sequence[Order],
    gradient: Any,
    query: Any,
    key: Any,
    value: Any,
    output: Any,
    total: Any,
    dropped: float,
    is_causal: bool,
    seed: Any,
    offset: Any,
    scale: Any,
) -> tuple[Any, ...]:
    """Gradients of query, key and value, from the results of `forward`."""
    import torch

    scale = _scale(query, scale)
    _check(_ROWS | _RESULTS, query, key, value, gradient, output, total)
    if is_by_products(dropped, is_causal, query, key, value):
        leaves = q, k, v = [each.detach().requires_grad_() for each in (query, key, value)]
        with torch.enable_grad():
            again, _ = _in_full(q, k, v, dropped, is_causal, scale, int(seed[0]) if dropped else 0)
        made = torch.autograd.grad(again, leaves, gradient)
    elif not query.is_cuda:
        given = _even(1, gradient, query, key, value, output)
        made = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            *given, total, 0.0, is_causal, scale=scale
        )
    else:
        rows, columns = query.shape[-2], key.shape[-2]
        given = _even(8, gradient, query, key, value, output)
        state = [None, None] if seed is None else [x.view(torch.uint64) for x in (seed, offset)]
        made = torch.ops.aten._scaled_dot_product_flash_attention_backward(
            *given, total, None, None, rows, columns, dropped, is_causal, *state, scale=scale
        )
    wanted = zip(made, (query, key, value), orders, strict=True)
    return tuple(laid(each[..., : of.shape[-1]], order) for each, of, order in wanted)


def _check(dimensions: Mapping[str, str], *tensors: Any) -> None:
    """Refuse tensors whose sizes do not fit each other.

    Raises:
        Refused: WS0194.
    """
    known: dict[str, tuple[int, str]] = {}
    for (name, letters), tensor in zip(dimensions.items(), tensors, strict=True):
        if tensor.ndim != len(letters):
            raise Refused(
                f"attention's {name} has {tensor.ndim} dimensions, and must have {len(letters)}",
                remedy="reshape it",
            )
        for dim, (letter, size) in enumerate(zip(letters, tensor.shape, strict=True)):
            there, where = known.setdefault(letter, (size, f"dimension {dim} of its {name}"))
            if there != size:
                raise Refused(
                    f"dimension {dim} of attention's {name} is {size}, and {where} is {there}; "
                    "they must be equal",
                    remedy="expand what is one for several batches or heads",
                )


def is_by_products(dropped: float, is_causal: bool, query: Any, key: Any, value: Any) -> bool:
    """Whether PyTorch has no kernel: none drops on the CPU, none is for nothing, and where there
    are not as many rows as keys, the one for GPUs counts what is causal from the last of both.
    """
    if any(each.numel() == 0 for each in (query, key, value)):
        return True
    if not query.is_cuda:
        return dropped != 0
    return is_causal and query.shape[-2] != key.shape[-2]


def _scale(query: Any, scale: Any) -> float:
    return 1 / math.sqrt(max(1, query.shape[-1])) if scale is None else float(scale)


def _later(query: Any, key: Any) -> Any:
    """Which keys come after each row, both counted from the first."""
    import torch

    rows, keys = query.shape[-2], key.shape[-2]
    return torch.ones(rows, keys, dtype=torch.bool, device=query.device).triu(1)


def _even(multiple: int, *tensors: Any) -> list[Any]:
    """Tensors with equally many columns, a multiple of a number; zeros behind those there are."""
    import torch

    columns = max(each.shape[-1] for each in tensors)
    wanted = -(-columns // multiple) * multiple
    fill = partial(torch.nn.functional.pad, mode="constant", value=0.0)
    return [
        each if each.shape[-1] == wanted else fill(each, (0, wanted - each.shape[-1]))
        for each in tensors
    ]


def _in_full(
    query: Any, key: Any, value: Any, dropped: float, is_causal: bool, scale: float, seed: int
) -> tuple[Any, Any]:
    """Attention by products, of which a share of the weights is dropped."""
    import torch

    scores = query.float() @ key.float().transpose(-1, -2) * scale
    if is_causal:
        scores = scores.masked_fill(_later(query, key), -math.inf)
    kept = torch.rand(scores.shape, generator=torch.Generator().manual_seed(seed)) >= dropped
    weights = scores.softmax(-1) * kept.to(scores.device) / (1 - dropped)
    return (weights @ value.float()).to(value.dtype), scores.logsumexp(-1)


def laid(tensor: Any, order: Order) -> Any:
    """A tensor that lies in memory without gaps, in an order of its dimensions."""
    if order is None:
        return tensor.contiguous()
    slowest_first = sorted(range(tensor.ndim), key=lambda d: -order[d])
    back = sorted(range(tensor.ndim), key=lambda k: slowest_first[k])
    return tensor.permute(slowest_first).contiguous().permute(back)
