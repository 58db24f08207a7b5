"""Gradients of embeddings by kernels of ours."""

from __future__ import annotations

import torch
from torch.fx import Graph

from warpsmith.nn import embeddings
from warpsmith.nn.calls import NAMES
from warpsmith.torch_backend.changes import call, given
from warpsmith.torch_backend.sizes import is_number

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
        with graph.inserting_before(node):
            sums = call(graph, embeddings.SUMMED, dy, words, rows, asked["padding_idx"])
        node.replace_all_uses_with(sums)
        graph.erase_node(node)
