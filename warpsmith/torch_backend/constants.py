"""What follows from constants of a graph alone, as `torch.tensor(0.5)` in a model does.

Torch copies such a constant in each call, and then to the GPU, for which the host waits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import GraphModule, Node

aten = torch.ops.aten

_FOLDED = (aten.lift_fresh_copy.default, aten._to_copy.default, aten.clone.default)


def fold_constants(module: GraphModule) -> None:
    """Copy constants of a graph once, and not in each call.

    The graph is AOTAutograd's, which writes into none of them, and changed in place. What leaves
    it, views of it too, is copied in each call still, since the caller may write into that.
    """
    graph = module.graph
    found: dict[Node, Any] = {}
    for node in list(graph.nodes):
        if node.op == "get_attr":
            found[node] = getattr(module, str(node.target), None)
            continue
        if node.target not in _FOLDED or len(node.all_input_nodes) != 1:
            continue
        (source,) = node.all_input_nodes
        value = found.get(source)
        if _leaves(node) or not isinstance(value, torch.Tensor):
            continue
        with unset_fake_temporarily():
            made = node.target(value, *node.args[1:], **node.kwargs)
        name = f"_folded_{node.name}"
        module.register_buffer(name, made)
        with graph.inserting_before(node):
            constant = graph.get_attr(name)
        constant.meta = dict(node.meta)
        node.replace_all_uses_with(constant)
        graph.erase_node(node)
        found[constant] = made
        if not source.users:
            graph.erase_node(source)


def _leaves(node: Node) -> bool:
    """Whether a node is a result of its graph, or shares its memory with one."""
    return any(
        user.op == "output" or (_may_share(user.target) and _leaves(user)) for user in node.users
    )


def _may_share(target: Any) -> bool:
    """Whether what an operation gives may be a view, or parts of one."""
    operation = isinstance(target, torch._ops.OpOverload)
    return not operation or target.is_view or target is aten._unsafe_view.default
