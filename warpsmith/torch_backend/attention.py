"""What keeps attention from torch's fused kernels."""

from __future__ import annotations

from torch import Tensor
from torch.fx import GraphModule, Node
from torch.nn.functional import scaled_dot_product_attention

MASK = 3
"""The place of the mask among the arguments of attention."""


def lay_masks_dense(module: GraphModule) -> None:
    """Copy masks that do not step by one element along their last dimension.

    The graph is dynamo's, and changed in place. For such masks torch computes attention by products
    and a softmax in float, and keeps every weight. Layers of `transformers` expand a mask of keys
    that way, though none of its elements is false.
    """
    for attention in module.graph.find_nodes(
        op="call_function", target=scaled_dot_product_attention
    ):
        given = {**dict(enumerate(attention.args)), **attention.kwargs}
        mask = given.get("attn_mask", given.get(MASK))
        if isinstance(mask, Node) and not _is_dense(mask.meta.get("example_value")):
            with module.graph.inserting_before(attention):
                dense = module.graph.call_method("contiguous", (mask,))
            attention.replace_input_with(mask, dense)
    module.recompile()


def _is_dense(mask: object) -> bool:
    return not isinstance(mask, Tensor) or mask.dim() == 0 or mask.stride(-1) == 1
