"""Rows that are added in zeros at computed places, which are gradients of embeddings."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch.fx import Graph, Node

from warpsmith.nn.calls import NAMES
from warpsmith.nn.embeddings import BY_EACH, FEW, MOST, few_ask
from warpsmith.torch_backend.changes import call, given
from warpsmith.torch_backend.definition import value_of
from warpsmith.torch_backend.permutations import is_zero
from warpsmith.torch_backend.sizes import is_number

aten = torch.ops.aten

_DEVICE, _PLACES = "cuda", (torch.int32, torch.int64)
"""Where kernels of ours sum rows, and by which types of places."""

_FLAT = aten.reshape.default


def add_rows_in_order(graph: Graph) -> None:
    """Let rows on a GPU that are added in zeros be summed as an embedding's gradient: in an order
    that is the same every time.

        before  index_put(zeros, [places], rows, accumulate=True)
        after   embedding_dense_backward(rows, arange(n)[places], n)
        before  index_add(zeros, 0, places, rows)
        after   embedding_dense_backward(rows, index_select(arange(n), 0, places), n)

    What reads a number at each place finds those that are no row's, as torch does. Where rows ask
    each of few places, nobody does. The graph is AOTAutograd's, and changed in place.
    """
    checked: dict[tuple[Any, Node, int], Node] = {}
    for node in list(graph.nodes):
        found = _added(node)
        if found is None or not _fits(node, *found):
            continue
        places, rows = found
        count, *shape = node.meta["val"].shape
        with graph.inserting_before(node):
            flat, places = (
                each if value_of(each).dim() == len(wanted) else call(graph, _FLAT, each, wanted)
                for each, wanted in ((rows, [-1, prod(shape)]), (places, [-1]))
            )
            if few_ask(value_of(places).numel(), count, prod(shape)):
                made = call(graph, BY_EACH, flat, places, count, -1)
            else:
                strict = aten.index_add.default, places, count  # it refuses what index_put takes
                key = strict if strict in checked else (node.target, places, count)
                places = checked.get(key) or _checked(graph, *key)
                checked[key] = places
                made = call(
                    graph, aten.embedding_dense_backward.default, flat, places, count, -1, False
                )
            if len(shape) != 1:
                made = call(graph, aten.view.default, made, [count, *shape])
        node.replace_all_uses_with(made)
        graph.erase_node(node)


def _added(node: Node) -> tuple[Node, Node] | None:
    """(places, rows) that a node adds in zeros."""
    if node.target is aten.index_put.default:
        base, places, rows, *accumulated = node.args
        fits = accumulated == [True] and len(places) == 1 and is_zero(base)
        return (places[0], rows) if fits else None
    if node.target is aten.index_add.default:
        asked: dict[str, Any] = given(node)
        fits = asked["dim"] == 0 and asked.get("alpha", 1) == 1 and is_zero(asked["self"])
        return (asked["index"], asked["source"]) if fits else None
    return None


def _fits(node: Node, places: Node, rows: Node) -> bool:
    """Whether each place is that of a row, and kernels of ours are there for so many."""
    made, at, given_rows = (each.meta["val"] for each in (node, places, rows))
    if made.device.type != _DEVICE or made.dtype not in NAMES or at.dtype not in _PLACES:
        return False
    if not all(map(is_number, (*made.shape, *at.shape))) or 0 in (*made.shape, *at.shape):
        return False
    alike = given_rows.dtype is made.dtype and given_rows.shape == (*at.shape, *made.shape[1:])
    count, *shape = made.shape
    many = FEW < at.numel() <= MOST
    return bool(alike and made.dim() and (many or few_ask(at.numel(), count, prod(shape))))


def _checked(graph: Graph, target: Any, places: Node, count: int) -> Node:
    """Places as numbers of rows, which they are known to be."""
    kind = places.meta["val"]
    told = {"dtype": torch.int32, "device": kind.device}
    numbers = call(graph, aten.arange.start_step, 0, count, **told)
    if target is aten.index_put.default:  # where negative ones count from the end
        return call(graph, aten.index.Tensor, numbers, [places])
    return call(graph, aten.index_select.default, numbers, 0, places)
