"""New calls in a graph of torch's."""

from __future__ import annotations

from typing import Any

from torch.fx import Graph, Node
from torch.fx.node import map_arg


def call(graph: Graph, function: Any, *args: Any, **kwargs: Any) -> Node:
    """A call where the graph inserts nodes, with what torch says of its result."""
    node = graph.call_function(function, args, kwargs)
    known, named = map_arg((node.args, node.kwargs), lambda each: each.meta["val"])
    node.meta["val"] = function(*known, **named)
    return node
