"""Joins of equal parts that are computed together, as the gradients of a gated unit's halves."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from warpsmith.torch_backend.aten import FACTORIES, READS, VIEWS, name_of
from warpsmith.torch_backend.changes import call
from warpsmith.torch_backend.definition import tensors_of
from warpsmith.torch_backend.fused import CHEAP, is_fused, views_of
from warpsmith.torch_backend.sizes import hint_of, is_number

aten = torch.ops.aten


def stack_parts(graph: Graph) -> None:
    """Let equal parts be stacked that are computed, joined, and then read by torch alone.

    A kernel's loops over a join go over one part behind the other, and compute at each place what
    it needs of either: parts of more than a few operations are stored, and read to be joined. Parts
    that are stacked are a dimension, whose elements one thread computes of what it loads once.

    The graph is AOTAutograd's, and changed in place:

        before  y = where(mask, 0, cat([a, b], 1))
        after   y = stack([where(mask, 0, a), where(mask, 0, b)], 1).view(...)
    """
    for node in graph.find_nodes(op="call_function", target=aten.cat.default):
        parts, *dim = node.args
        shape = node.meta["val"].shape
        axis = (*dim, node.kwargs.get("dim", 0))[0] % len(shape)
        if not _are_alike(parts) or not _numbers(node):
            continue
        last, chain = node, list[Node]()
        while (user := _next(last, axis - len(shape))) is not None:
            chain.append(user)
            last = user
        if any(is_fused(user) for each in (last, *views_of(last)) for user in _readers(each)):
            continue
        with graph.inserting_before(last):
            for step, before in zip(chain, (node, *chain), strict=False):
                parts = [_instead(graph, step, before, part) for part in parts]
            stacked = _stack(graph, parts, axis)
            joined = call(graph, aten.view.default, stacked, list(_numbers(node)))
        last.replace_all_uses_with(joined)
        for each in (*reversed(chain), node):
            graph.erase_node(each)


def _are_alike(parts: Any) -> bool:
    """Whether there are several parts of one shape and type, which kernels compute."""
    names = {name_of(each.target) for each in parts}
    if not all(map(is_fused, parts)) or not names.isdisjoint((*VIEWS, *READS, *FACTORIES)):
        return False
    kinds = {(_numbers(each), each.meta["val"].dtype) for each in parts}
    return len(parts) > 1 and len(kinds) == 1 and _numbers(parts[0]) != ()


def _numbers(node: Node) -> tuple[int, ...]:
    """The shape of a node that lies row by row, where all its sizes are numbers; else nothing."""
    tensor = node.meta["val"]
    known = all(map(is_number, tensor.shape)) and tensor.is_contiguous()
    return tuple(map(hint_of, tensor.shape)) if known else ()


def _next(node: Node, axis: int) -> Node | None:
    """What is computed of a join alone, and of what has one element along it, counted from the end;
    None where something else reads the join.
    """
    user, *more = node.users
    if more or name_of(user.target) not in CHEAP:
        return None
    others = [
        t.shape for each in user.all_input_nodes if each is not node for t in tensors_of(each)
    ]
    one = all(len(shape) < -axis or shape[axis] == 1 for shape in others)
    return user if one and user.meta["val"].shape == node.meta["val"].shape else None


def _readers(node: Node) -> list[Node]:
    views = set(views_of(node))
    return [user for user in node.users if user not in views]


def _instead(graph: Graph, step: Node, joined: Node, part: Node) -> Node:
    """A step for one part, in place of what was joined."""

    def operand(each: Node) -> Node:
        return part if each is joined else each

    args, kwargs = map_arg((step.args, step.kwargs), operand)
    return call(graph, step.target, *args, **kwargs)


def _stack(graph: Graph, parts: list[Node], axis: int) -> Node:
    """The parts along a new dimension, each chosen by its number."""
    one = parts[0].meta["val"]
    numbers = call(graph, aten.arange.start_step, 0, len(parts), device=one.device)
    along = call(graph, aten.view.default, numbers, [len(parts), *[1] * (one.dim() - axis)])
    *rest, found = [call(graph, aten.unsqueeze.default, part, axis) for part in parts]
    for number, part in reversed(list(enumerate(rest))):
        chosen = call(graph, aten.eq.Scalar, along, number)
        found = call(graph, aten.where.self, chosen, part, found)
    return found
