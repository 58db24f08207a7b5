"""Numbers that programs share which are otherwise apart: each computes them for itself."""

from __future__ import annotations

import torch
from torch.fx import Graph, Node

from warpsmith.ir.disjoint import Disjoint
from warpsmith.torch_backend.writes import is_whole_write, writes


def keep_apart(graph: Graph) -> None:
    """Let what follows from numbers be computed anew for each program that nothing else joins.

    An optimizer's updates have rates in common, that a kernel may read and each thread may work out
    in no time; as one program they would be of as many shapes as there are parameters. The graph is
    AOTAutograd's, of one that writes inputs as a whole, and changed in place:

        before  r = 1 - rate * decay; p.copy_(p * r); q.copy_(q * r)
        after   r = 1 - rate * decay; s = 1 - rate * decay; p.copy_(p * r); q.copy_(q * s)
    """
    if not any(map(is_whole_write, graph.nodes)):
        return
    found = Disjoint[Node]()
    numbers: set[Node] = set()
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        if _is_number(node, numbers):
            numbers.add(node)
            continue
        found.add(node)
        for each in node.all_input_nodes:
            if each in found:
                found.join(each, node)
    home: dict[Node, Node] = {}
    for node in reversed(list(graph.nodes)):
        if node not in numbers:
            continue
        readers: dict[Node, list[Node]] = {}
        for user in node.users:
            if user.op != "output" and not writes(user) and (user in found or user in home):
                readers.setdefault(home[user] if user in home else found.find(user), []).append(
                    user
                )
        if not readers:
            continue
        own, *others = readers
        home[node] = own
        for other in others:
            with graph.inserting_before(node):
                made = graph.node_copy(node)
            home[made] = other
            for user in readers[other]:
                user.replace_input_with(node, made)


def _is_number(node: Node, known: set[Node]) -> bool:
    """Whether a node computes one number of numbers."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or torch.Tag.pointwise not in target.tags:
        return False
    sources = [each for each in node.all_input_nodes if each not in known]
    values = [each.meta.get("val") for each in (node, *sources)]
    return all(isinstance(value, torch.Tensor) and value.ndim == 0 for value in values)
