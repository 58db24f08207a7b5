"""Gradients of rows that were read in another order: rows that are read, in place of sums."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from warpsmith.torch_backend.changes import call, given
from warpsmith.torch_backend.sizes import hint_of, is_number
from warpsmith.torch_backend.sorts import SORTS

aten = torch.ops.aten

_FLOORED = ("floor", "trunc")


def read_gradients(graph: Graph) -> None:
    """Let the gradient of rows that were read in the order of a sort be read in the inverse one.

    The graph is AOTAutograd's, of forward and backward, and changed in place. It adds up each row
    of the gradient in zeros, whichever places were read: torch sorts them for that. A sort gives
    each place once, so that there is nothing to add; and of its places divided by k, as experts
    read the words of a batch, each occurs k times in a row of the inverse order.

        before  index_put(zeros, [order], dy, accumulate=True)
        after   dy[inverse]
        before  index_put(zeros, [order // k], dy, accumulate=True)
        after   dy[inverse].view(-1, k, ...).sum(1)
    """
    numbered = {node: number for number, node in enumerate(graph.nodes)}
    for node in graph.find_nodes(op="call_function", target=aten.index_put.default):
        base, places, values, *accumulated = node.args
        if accumulated != [True] or len(places) != 1 or not is_zero(base):
            continue
        order, each = _divided(places[0])
        (rows, *rest), count = node.meta["val"].shape, _length(order)
        if count is None or not _same((count,), (rows * each,)):
            continue
        if not _same(values.meta["val"].shape, (count, *rest)):
            continue
        inverse = _inverse(graph, order, node, numbered)
        with graph.inserting_before(node):
            found = call(graph, aten.index.Tensor, values, [inverse])
            if each > 1:
                beyond = [_size(graph, values, k + 1) for k in range(len(rest))]
                apart = [_size(graph, base, 0), each, *beyond]
                found = call(graph, aten.view.default, found, apart)
                found = call(graph, aten.sum.dim_IntList, found, [1])
        node.replace_all_uses_with(found)
        graph.erase_node(node)


def is_zero(node: Node) -> bool:
    """Whether a node is a tensor of zeros."""
    if node.target in (aten.full.default, aten.full_like.default):
        return bool(node.args[1] == 0)
    return node.target in (aten.zeros.default, aten.new_zeros.default)


def _divided(places: Any) -> tuple[Any, int]:
    """What places are quotients of, and by which number."""
    if isinstance(places, Node) and places.target is aten.div.Tensor_mode:
        dividend, divisor = places.args
        if isinstance(divisor, int) and divisor > 0 and places.kwargs["rounding_mode"] in _FLOORED:
            return dividend, divisor
    return places, 1


def _length(node: Any) -> Any:
    """How many places a node has, if it has each place of a row once; else None."""
    if _sorted(node) is None and _inverted(node) is None:
        return None
    return node.meta["val"].shape[0]


def _sorted(node: Any) -> Node | None:
    """The row whose order a sort found; None where a node is none."""
    if not isinstance(node, Node) or node.target is not operator.getitem or node.args[1] != 1:
        return None
    sort = node.args[0]
    assert isinstance(sort, Node)
    one = sort.target in SORTS and node.meta["val"].dim() == 1
    return sort.args[0] if one and isinstance(sort.args[0], Node) else None


def _inverted(node: Any) -> Node | None:
    """The order of a sort that a node is the inverse of; None where it is none."""
    if not isinstance(node, Node):
        return None
    row = _sorted(node)
    if row is not None and _sorted(row) is not None and _rises(node.args[0]):  # a sort of an order
        return row
    if node.target is not aten.index_put.default:
        return None
    base, places, values, *accumulated = node.args
    if accumulated not in ([], [False]) or len(places) != 1 or _sorted(places[0]) is None:
        return None
    shape = places[0].meta["val"].shape
    alike = all(_same(each.meta["val"].shape, shape) for each in (base, values))
    return places[0] if alike and _counts(values) else None


def _rises(sort: Any) -> bool:
    """Whether a sort begins with the least."""
    return given(sort).get("descending", False) is False


def _counts(values: Node) -> bool:
    """Whether a node is 0, 1, 2 and so on."""
    return values.target is aten.arange.start_step and values.args[0] == 0 and len(values.args) == 2


def _same(one: Any, other: Any) -> bool:
    """Whether shapes are equal, of all sizes that they are for."""
    return len(one) == len(other) and all(
        statically_known_true(a == b) for a, b in zip(one, other, strict=True)
    )


def _inverse(graph: Graph, order: Node, before: Node, numbered: Mapping[Node, int]) -> Node:
    """The inverse of an order: one that comes before a node, or else one that is made there."""
    inverted = _inverted(order)
    if inverted is not None:
        return inverted
    for node in numbered:
        if numbered[node] < numbered[before] and _inverted(node) is order:
            return node
    with graph.inserting_before(before):
        like = order.meta["val"]
        length = _size(graph, order, 0)
        count = call(graph, aten.arange.start_step, 0, length, dtype=like.dtype, device=like.device)
        return call(graph, aten.index_put.default, count, [order], count)


def _size(graph: Graph, node: Node, dim: int) -> Any:
    """A size, a number or what the graph computes it by."""
    size = node.meta["val"].shape[dim]
    return hint_of(size) if is_number(size) else call(graph, aten.sym_size.int, node, dim)
