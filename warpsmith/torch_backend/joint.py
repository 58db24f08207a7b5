"""AOTAutograd's graph of forward and backward, made into the two of them."""

from __future__ import annotations

from typing import Any

import torch._functorch.config as functorch_config
from torch._functorch.compile_utils import fx_graph_cse
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule

from warpsmith.torch_backend.chosen import save_in_windows
from warpsmith.torch_backend.embeddings import sort_once
from warpsmith.torch_backend.image_layout import lay_out
from warpsmith.torch_backend.parts import join_parts
from warpsmith.torch_backend.permutations import read_gradients
from warpsmith.torch_backend.pixels import add_up_pixels
from warpsmith.torch_backend.rows_added import add_rows_in_order
from warpsmith.torch_backend.saved import (
    fill_again,
    forward_of,
    let_compute_again,
    read_words_again,
    save_compared,
)


def partition(
    module: GraphModule, inputs: Any, *, num_fwd_outputs: int, **told: Any
) -> tuple[GraphModule, GraphModule]:
    """Forward and backward of a graph, by torch's partitioner, which decides what is saved."""
    module.graph.eliminate_dead_code()
    module.graph = fx_graph_cse(module.graph)
    join_parts(module.graph)
    read_gradients(module.graph)
    add_up_pixels(module.graph)
    save_in_windows(module.graph)
    let_compute_again(module.graph, num_fwd_outputs)
    fill_again(module.graph, num_fwd_outputs)
    add_rows_in_order(module.graph)
    sort_once(module.graph, forward_of(module.graph, num_fwd_outputs))
    read_words_again(module.graph)
    save_compared(module.graph)
    with functorch_config.patch(cse=False):  # it would take aliases for what they are aliases of
        made: tuple[GraphModule, GraphModule] = min_cut_rematerialization_partition(
            module, inputs, num_fwd_outputs=num_fwd_outputs, **told
        )
    lay_out(made[0].graph, made[1].graph, num_fwd_outputs)
    return made
