"""What follows from constants of a graph alone, as `torch.tensor(0.5)` in a model does.

Torch copies such a constant in each call, and then to the GPU, for which the host waits.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from warpsmith.torch_backend.aten import CONVERSIONS, VIEWS, name_of
from warpsmith.torch_backend.sizes import is_number

aten = torch.ops.aten

MOST_FOLDED = 1 << 14
"""Elements of a table that is kept in place of computing it."""

_COSTLY = {
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "sin", "sinh"),
    *("tan", "tanh", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "lgamma", "log", "log10"),
    *("log1p", "log2", "pow.Scalar", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "sigmoid"),
}
"""What takes many instructions, or more than reading a number does."""

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
        found[_replaced(module, node, made)] = made
        graph.erase_node(node)
        if not source.users:
            graph.erase_node(source)


def _replaced(module: GraphModule, node: Node, made: torch.Tensor) -> Node:
    """A constant of the module, which is used in place of a node."""
    name = f"_folded_{node.name}"
    module.register_buffer(name, made)
    with module.graph.inserting_before(node):
        constant = module.graph.get_attr(name)
    constant.meta = dict(node.meta)
    node.replace_all_uses_with(constant)
    return constant


def fold_tables(module: GraphModule) -> None:
    """Compute what follows from numbers of places, by more than arithmetic, once and not in each
    call: frequencies of a rotary or of a timestep's embedding, the window of a transform.

        before  exp(arange(n) * -0.02) * x
        after   a constant of the module * x

    The graph is AOTAutograd's, and changed in place.
    """
    graph = module.graph
    costly: dict[Node, bool] = {}
    for node in graph.nodes:
        if _follows_from(node, costly):
            costly[node] = name_of(node.target) in _COSTLY or any(
                costly[each] for each in node.all_input_nodes
            )
    known: dict[Node, torch.Tensor] = {}
    for node in [node for node, is_costly in costly.items() if is_costly]:
        if _leaves(node) or all(costly.get(user, False) for user in node.users):
            continue
        with unset_fake_temporarily():
            made = _value(node, known)
        _replaced(module, node, made)
    for node in reversed(costly):
        if not node.users:
            graph.erase_node(node)


def _follows_from(node: Node, known: Container[Node]) -> bool:
    """Whether a node is a small tensor that is computed, element by element, of such alone."""
    value = node.meta.get("val")
    if node.op != "call_function" or not isinstance(value, torch.Tensor):
        return False
    if not all(map(is_number, value.shape)) or value.numel() > MOST_FOLDED:
        return False
    name = name_of(node.target)
    counted = name in ("arange.start_step", "full", "scalar_tensor")
    of_elements = torch.Tag.pointwise in getattr(node.target, "tags", ()) or name in VIEWS
    sources = node.all_input_nodes
    return all(each in known for each in sources) and (
        (counted and not sources) or (bool(sources) and (of_elements or name in CONVERSIONS))
    )


def _value(node: Node, known: dict[Node, torch.Tensor]) -> torch.Tensor:
    if node not in known:
        args, kwargs = map_arg((node.args, node.kwargs), lambda each: _value(each, known))
        known[node] = node.target(*args, **kwargs)
    return known[node]


def _leaves(node: Node) -> bool:
    """Whether a node is a result of its graph, or shares its memory with one."""
    return any(
        user.op == "output" or (_may_share(user.target) and _leaves(user)) for user in node.users
    )


def _may_share(target: Any) -> bool:
    """Whether what an operation gives may be a view, or parts of one."""
    operation = isinstance(target, torch._ops.OpOverload)
    return not operation or target.is_view or target is aten._unsafe_view.default
