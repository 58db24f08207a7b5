"""Calls in a graph of torch's."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from torch._guards import detect_fake_mode
from torch.fx import Graph, Node
from torch.fx.node import map_arg


def given(node: Node) -> dict[str, Any]:
    """The arguments of a call of an operation by name, without those that have their default."""
    names = (argument.name for argument in node.target._schema.arguments)
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


def call(graph: Graph, function: Any, *args: Any, **kwargs: Any) -> Node:
    """A call where the graph inserts nodes, with what torch says of its result."""
    node = graph.call_function(function, args, kwargs)
    known, named = map_arg((node.args, node.kwargs), lambda each: each.meta["val"])
    mode = detect_fake_mode([each.meta["val"] for each in graph.find_nodes(op="placeholder")])
    with mode or nullcontext():
        node.meta["val"] = function(*known, **named)
    return node
