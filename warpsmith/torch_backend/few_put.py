"""What is put at a few places of each row: elements ask whether they are there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch.fx import Graph, Node

from warpsmith.nn.calls import NAMES
from warpsmith.torch_backend.changes import call, given
from warpsmith.torch_backend.definition import value_of
from warpsmith.torch_backend.permutations import is_zero
from warpsmith.torch_backend.sizes import is_number

aten = torch.ops.aten

_DEVICE, _PLACES = "cuda", (torch.int32, torch.int64)
"""Where elements ask, and for which types of places."""

MOST_PLACES = 8
"""Places of each row that an element is asked for, each with a comparison, a choice and a sum; of
more, writing zeros and adding to them takes less time.
"""


class _Put(NamedTuple):
    """What is put along a dimension of a tensor.

    Attributes:
        places: where `values` are put, along that dimension.
        own: the dimension of both that counts what is put; None where it is one.
        added: whether values are added to what is there.
        from_end: whether negative places count from the end.
    """

    base: Node
    dim: int
    places: Node
    values: Node
    own: int | None
    added: bool
    from_end: bool


def put_by_choice(graph: Graph) -> None:
    """Let elements of rows at few places of which something is put ask whether they are there.

        before  index_put(x, [arange(n), places], y)
        after   where(places[:, None] == arange(m), y[:, None], x)
        before  scatter_add(zeros, 1, places, y)
        after   sum(where(places[:, :, None] == arange(m), y[:, :, None], 0), 1)

    So kernels take it, with what they compute before and behind. Sums have one order, and what has
    a place of no element is put nowhere. The graph is AOTAutograd's, and changed in place.
    """
    for node in list(graph.nodes):
        found = _put(node) if node.op == "call_function" else None
        if found is not None and _fits(node, found):
            with graph.inserting_before(node):
                made = _chosen(graph, node, found)
            node.replace_all_uses_with(made)
            graph.erase_node(node)


def _put(node: Node) -> _Put | None:
    if node.target is aten.index_put.default:
        base, places, values, *added = node.args
        fits = _is_each(places, node)
        return _Put(base, 1, places[1], values, None, added == [True], True) if fits else None
    if node.target is aten.scatter_add.default and is_zero(node.args[0]):
        asked, rank = given(node), value_of(node).dim()
        dim = asked["dim"] % max(rank, 1)
        base, places, values = (asked[name] for name in ("self", "index", "src"))
        return _Put(base, dim, places, values, dim, True, False) if rank else None
    return None


def _is_each(places: Sequence[Node | None], node: Node) -> bool:
    """Whether the first of two places are each of their dimension, in order."""
    if len(places) != 2 or None in places:
        return False
    counted = places[0]
    if not isinstance(counted, Node) or counted.target is not aten.arange.start_step:
        return False
    told = given(counted)
    return (told["start"], told["end"], told.get("step", 1)) == (0, value_of(node).shape[0], 1)


def _fits(node: Node, found: _Put) -> bool:
    """Whether there is one value for each place, or for all, and few places of each row."""
    made, at, values = (value_of(each) for each in (node, found.places, found.values))
    if made.device.type != _DEVICE or made.dtype not in NAMES or values.dtype is not made.dtype:
        return False
    sizes = (*made.shape, *at.shape, *values.shape)
    if at.dtype not in _PLACES or not all(map(is_number, sizes)) or 0 in sizes:
        return False
    before, inside = made.shape[: found.dim], made.shape[found.dim + 1 :]
    if found.own is None:
        return bool(at.shape == before and values.shape in ((), (*before, *inside)))
    shape = (*before, at.shape[found.dim], *inside)
    return bool(shape == at.shape == values.shape and at.shape[found.dim] <= MOST_PLACES)


def _chosen(graph: Graph, node: Node, found: _Put) -> Node:
    made = value_of(node)
    count, device = made.shape[found.dim], made.device
    behind = found.dim if found.own is None else found.own + 1
    at = call(graph, aten.unsqueeze.default, found.places, behind)
    values = found.values
    if value_of(values).dim():
        values = call(graph, aten.unsqueeze.default, values, behind)
    inside = made.dim() - found.dim - 1
    for _ in range(inside if found.own is None else 0):
        at = call(graph, aten.unsqueeze.default, at, -1)
    at = call(graph, aten._to_copy.default, at, dtype=torch.int32)
    if found.from_end:
        end = call(graph, aten.add.Tensor, at, count)
        at = call(graph, aten.where.self, call(graph, aten.lt.Scalar, at, 0), end, at)
    told = {"dtype": torch.int32, "device": device}
    numbers = call(graph, aten.arange.start_step, 0, count, **told)
    for _ in range(inside):
        numbers = call(graph, aten.unsqueeze.default, numbers, -1)
    there = call(graph, aten.eq.Tensor, at, numbers)
    if found.own is None and not (found.added and is_zero(found.base)):
        both = call(graph, aten.add.Tensor, found.base, values) if found.added else values
        return call(graph, aten.where.self, there, both, found.base)
    zero = call(graph, aten.full.default, [], 0, dtype=made.dtype, device=device)
    chosen = call(graph, aten.where.self, there, values, zero)
    if found.own is None:
        return chosen
    return call(graph, aten.sum.dim_IntList, chosen, [found.own], dtype=made.dtype)
