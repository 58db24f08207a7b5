"""Attention of torch's: what keeps it from fused kernels, and which of it warpsmith takes."""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.nn.functional import scaled_dot_product_attention

from warpsmith.engine.places import call_target
from warpsmith.knobs import current
from warpsmith.ops.attention_in_tiles import KEYS
from warpsmith.torch_backend.sizes import hint_of

NAMES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
"""Arguments of attention, in torch's order."""

ROWS = range(2, 9)
"""Queries of one word that have keys and values in common, for which there is a kernel."""

READ = NAMES[:4]
"""Those of them that are tensors."""


def lay_dense(module: GraphModule) -> None:
    """Copy what attention reads that does not step by one element along its last dimension.

    The graph is dynamo's, and changed in place. Of such queries, keys, values and masks torch
    computes attention by products and a softmax in float, and keeps every weight. Layers of
    `transformers` expand a mask of keys that way; heads of images are turned.
    """
    for attention in module.graph.find_nodes(
        op="call_function", target=scaled_dot_product_attention
    ):
        given = {**dict(zip(NAMES, attention.args, strict=False)), **attention.kwargs}
        for node in dict.fromkeys(given[name] for name in READ if name in given):
            if isinstance(node, Node) and not _is_dense(node.meta.get("example_value")):
                with module.graph.inserting_before(attention):
                    dense = module.graph.call_method("contiguous", (node,))
                attention.replace_input_with(node, dense)
    module.recompile()


def _is_dense(given: object) -> bool:
    return not isinstance(given, Tensor) or given.dim() == 0 or given.stride(-1) == 1


def _attention_of_rows(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float | None
) -> Tensor:
    """Attention of `query [b, h, r, d]` to `key [b, h, n, d]` and `value [b, h, n, e]`."""
    return scaled_dot_product_attention(query, key, value, mask, scale=scale).contiguous()


def _shape_of_rows(query: Tensor, key: Tensor, value: Tensor, *others: Any) -> Tensor:
    return query.new_empty((*query.shape[:3], value.shape[3]))


attention_of_rows = torch.library.custom_op(
    "warpsmith::attention_of_rows", _attention_of_rows, mutates_args=()
)
attention_of_rows.register_fake(_shape_of_rows)


def take_few_rows(
    module: GraphModule, devices: Collection[str] = ("cuda",), least: int | None = None
) -> None:
    """Have attention of one word's queries be an operator that fusions take.

    The graph is dynamo's, and changed in place. Heads that share keys and values become rows.

    Args:
        least: bytes of keys and values from which on it is; by default a quarter of what the L2
            holds. Of fewer, starts and ends take the most, and torch's kernels have shorter ones
            (docs/lessons/attention.md).
    """
    graph = module.graph
    for node in graph.find_nodes(op="call_function", target=scaled_dot_product_attention):
        given = {**dict(zip(NAMES, node.args, strict=False)), **node.kwargs}
        if not _is_taken(given, _tensor(node), devices):
            continue
        query, key, value = (given[name] for name in NAMES[:3])
        wanted = least
        if wanted is None:
            ordinal = _tensor(key).device.index or 0
            wanted = call_target(current(), ordinal).l2_bytes // 4
        few = hint_of(_tensor(key).shape[2]) <= KEYS  # one tile, which the kernel does not take
        if few or sum(_bytes_of(_tensor(each)) for each in (key, value)) < wanted:
            continue
        heads, mask = _tensor(key).shape[1], given.get("attn_mask")
        with graph.inserting_before(node):
            if mask is not None and _tensor(mask).shape[1] > 1:
                mask = _rows(mask, heads)
            made = graph.call_function(
                torch.ops.warpsmith.attention_of_rows.default,
                (_rows(query, heads), key, value, mask, given.get("scale")),
            )
            flat = graph.call_method("flatten", (made, 1, 2))
            node.replace_all_uses_with(graph.call_method("unsqueeze", (flat, 2)))
        graph.erase_node(node)
    module.recompile()


def _rows(node: Node, heads: int) -> Node:
    """`[b, h r, 1, d]` as `[b, h, r, d]`."""
    parts = node.graph.call_method("unflatten", (node, 1, (heads, -1)))
    return node.graph.call_method("squeeze", (parts, 3))


def _tensor(node: Any) -> Tensor:
    value: Tensor = node.meta["example_value"]
    return value


def _bytes_of(tensor: Tensor) -> int:
    """As they are in the call that is traced."""
    return prod(map(hint_of, tensor.shape)) * int(tensor.element_size())


def _is_taken(given: dict[str, Any], result: Tensor, devices: Collection[str]) -> bool:
    """Whether there is a kernel for it: one word, of 16 bits, whose gradient nobody wants."""
    mask, others = given.get("attn_mask"), [given[name] for name in NAMES[:3]]
    nodes = others if mask is None else [*others, mask]
    if given.get("dropout_p", 0) or given.get("is_causal") or not given.get("enable_gqa"):
        return False
    if not all(
        isinstance(n, Node) and isinstance(n.meta.get("example_value"), Tensor) for n in nodes
    ):
        return False
    query, key, value = tensors = [_tensor(node) for node in others]
    if any(t.ndim != 4 or t.device.type not in devices for t in tensors):
        return False
    if query.dtype not in (torch.bfloat16, torch.float16) or query.shape[2] != 1:
        return False
    if any(t.dtype is not query.dtype for t in (key, value, result)):
        return False  # autocast has another type
    if query.shape[0] == 1:  # products are sums then, whose early starts hold it up
        return False
    if torch.is_grad_enabled() and any(_tensor(node).requires_grad for node in nodes):
        return False
    if query.shape[0] != key.shape[0] or key.shape[:3] != value.shape[:3]:
        return False
    if not all(type(size) is int for t in tensors for size in (t.shape[1], t.shape[3])):
        return False  # the kernel is of known sizes
    fits = all(t.shape[3] % 64 == 0 and t.shape[3] <= 256 for t in (query, value))
    rows = query.shape[1] // max(1, key.shape[1])
    return fits and rows in ROWS and _counts(mask, query, key)


def _counts(mask: Any, query: Tensor, key: Tensor) -> bool:
    """Whether a mask says of each key whether it counts, for all heads or for each."""
    if mask is None:
        return True
    given = _tensor(mask)
    return (
        given.ndim == 4
        and given.shape[1] in (1, query.shape[1])
        and given.shape[2] == 1
        and given.shape[3] == key.shape[2]
    )
