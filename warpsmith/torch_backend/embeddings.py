"""Gradients of embeddings by kernels of ours."""

from __future__ import annotations

import torch
from torch.fx import Graph, Node

from warpsmith.nn import embeddings
from warpsmith.nn.calls import NAMES
from warpsmith.torch_backend.changes import call, given
from warpsmith.torch_backend.sizes import is_number
from warpsmith.torch_backend.writes import product_alone

aten = torch.ops.aten


def sum_embeddings(graph: Graph) -> None:
    """Have gradients of embeddings on a GPU summed by `nn.embeddings`.

    The graph is AOTAutograd's, and changed in place.
    """
    for node in graph.find_nodes(op="call_function", target=aten.embedding_dense_backward.default):
        asked = given(node)
        dy, words, rows = asked["grad_output"], asked["indices"], asked["num_weights"]
        slopes = dy.meta["val"]
        if slopes.device.type != "cuda" or slopes.dtype not in NAMES:
            continue
        if asked["scale_grad_by_freq"] or not is_number(rows):
            continue
        total = _total(node)
        with graph.inserting_before(total or node):
            if total is not None:
                (other,) = (each for each in total.all_input_nodes if each is not node)
                sums = call(graph, embeddings.ADDED, other, dy, words, asked["padding_idx"])
            else:
                sums = call(graph, embeddings.SUMMED, dy, words, rows, asked["padding_idx"])
        (total or node).replace_all_uses_with(sums)
        for gone in filter(None, (total, node)):
            graph.erase_node(gone)


def _total(node: Node) -> Node | None:
    """The sum of a gradient and of a product that nothing else reads, as logits leave of words'
    weights; None where the gradient is needed otherwise.
    """
    total, *others = node.users
    if others or total.target is not aten.add.Tensor or total.kwargs:
        return None
    found = [each for each in total.args if each is not node]
    if len(found) != 1 or not isinstance(found[0], Node):
        return None
    made, kinds = node.meta["val"], found[0].meta["val"]
    alike = (made.shape, made.dtype) == (kinds.shape, kinds.dtype) and kinds.is_contiguous()
    return total if alike and product_alone(found[0]) is not None else None
