"""Sorts of small numbers in 64 bits, which a radix sort passes over eight times."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Graph, Node

from warpsmith.torch_backend.aten import VIEWS, name_of
from warpsmith.torch_backend.changes import call, given
from warpsmith.torch_backend.sizes import is_number

aten = torch.ops.aten

SORTS = (aten.sort.default, aten.sort.stable)
_CHOICES = (aten.topk.default, *SORTS)
_BELOW = 256
"""Numbers that 8 bits hold."""


def sort_in_few_bits(graph: Graph) -> None:
    """Sort numbers of a short dimension's places, as those of experts, in 8 bits.

    The graph is AOTAutograd's, and changed in place.
    """
    for node in [
        n for target in SORTS for n in graph.find_nodes(op="call_function", target=target)
    ]:
        numbers, *others = node.args
        if numbers.meta["val"].dtype is not torch.int64 or not _is_small(numbers):
            continue
        with graph.inserting_before(node):
            narrow = call(graph, aten._to_copy.default, numbers, dtype=torch.uint8)
            sort = call(graph, node.target, narrow, *others, **node.kwargs)
        for part in list(node.users):
            with graph.inserting_before(part):
                found = call(graph, operator.getitem, sort, part.args[1])
                if part.args[1] == 0:
                    found = call(graph, aten._to_copy.default, found, dtype=torch.int64)
            part.replace_all_uses_with(found)
            graph.erase_node(part)
        graph.erase_node(node)


def _is_small(node: Any) -> bool:
    """Whether each element is a place along a dimension of few."""
    while isinstance(node, Node) and name_of(node.target) in VIEWS:
        node = node.args[0]
    if not isinstance(node, Node) or node.target is not operator.getitem or node.args[1] != 1:
        return False
    choice = node.args[0]
    assert isinstance(choice, Node)
    if choice.target not in _CHOICES:
        return False
    arguments = given(choice)
    shape = arguments["self"].meta["val"].shape
    extent = shape[arguments.get("dim", -1)] if shape else 1
    return bool(is_number(extent)) and extent <= _BELOW
