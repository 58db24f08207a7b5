"""Convolutions whose images have their channels last, whatever a model said.

Tensor cores read them so: of others cuDNN makes copies, before and behind each convolution. What
lies between convolutions may lie in any order, and regions write any order for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch._guards import detect_fake_mode
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from warpsmith.torch_backend.aten import FACTORIES, READS, TABLE, VIEWS, name_of
from warpsmith.torch_backend.changes import call
from warpsmith.torch_backend.convolutions import images_of, is_faster
from warpsmith.torch_backend.definition import tensors_of
from warpsmith.torch_backend.levels import has_effects

aten = torch.ops.aten

_CHANNELS_LAST = (0, 2, 3, 1)
"""The dimensions of images, from the slowest to the fastest."""

_OWN = ("aten", "prims", "warpsmith")
"""Namespaces of operations that give the same for every order of what they read."""

_BY_STRIDES = ("as_strided", "attention")
"""Parts of the names of those of them that do not, or take some orders only."""


def lay_out(forward: Graph, backward: Graph | None = None, results: int | None = None) -> None:
    """Let convolutions read and give channels last where that is faster, in graphs of AOTAutograd.

    What leaves for the caller lies as torch traced it. The graphs are changed in place.

    Args:
        results: how many of the forward graph's are the caller's; those behind them are saved for
            the backward graph, whose inputs have their names. None for all.
    """
    (output,) = forward.find_nodes(op="output")
    saved = [] if backward is None else list(output.args[0][results:])
    _Layout(forward, results).change()
    if backward is None:
        return
    lying = _Layout(backward, None)
    given = {node.name: node for node in backward.find_nodes(op="placeholder")}
    for before, after in zip(saved, output.args[0][results:], strict=True):
        if isinstance(before, Node) and before.name in given:
            lying.put(given[before.name], after.meta["val"])
    lying.change()


class _Layout:
    """A graph in which convolutions change, and all that follows from what they give.

    Args:
        results: how many of the graph's are the caller's, the first ones; None for all.
    """

    def __init__(self, graph: Graph, results: int | None) -> None:
        self._graph = graph
        self._results = results
        self._mode = detect_fake_mode([v for n in graph.nodes for v in tensors_of(n)])
        self._chosen = set(filter(is_faster, graph.nodes))
        self._read = {n for node in self._chosen for n in images_of(node) if _is_computed(n)}
        self._traced: dict[Node, Any] = {}  # of nodes that lie otherwise, as torch traced them
        self._turned: dict[Node, Node] = {}  # with channels last
        self._plain: dict[Node, Node] = {}  # copies that lie as torch traced them

    def put(self, node: Node, value: Any) -> None:
        """Let a node be a tensor that may lie otherwise than torch traced it."""
        was = self._traced.pop(node, node.meta["val"])
        if not _lie_alike(was, value):
            self._traced[node] = was
        node.meta["val"] = value

    def change(self) -> None:
        if not self._chosen and not self._traced:
            return
        for node in list(self._graph.nodes):
            if node.op == "output":
                self._leave(node)
            elif node.op == "call_function":
                self._call(node)

    def _call(self, node: Node) -> None:
        if node in self._chosen:
            for image in set(images_of(node)):
                node.replace_input_with(image, self._with_channels_last(image, node))
            self._trace(node)
        elif any(each in self._traced for each in node.all_input_nodes):
            if _takes_any_order(node):
                self._trace(node)
            else:
                self._read_as_traced(node)
        if node in self._read and not _has_channels_last(node):
            users = [user for user in node.users if user.op != "output"]
            turned = self._with_channels_last(node, node.next)
            for user in users:
                user.replace_input_with(node, turned)
            lies, turned.meta["val"] = turned.meta["val"], self._traced.get(node, node.meta["val"])
            self.put(turned, lies)

    def _trace(self, node: Node) -> None:
        """Let a node know how its result lies now; what no longer is a view reads a copy."""
        try:
            value = self._value(node)
        except (RuntimeError, ValueError):
            self._read_as_traced(node)
            value = self._value(node)
        if tensors_of(node):
            self.put(node, value)

    def _value(self, node: Node) -> Any:
        args, kwargs = map_arg((node.args, node.kwargs), lambda each: each.meta["val"])
        with self._mode or nullcontext():
            return node.target(*args, **kwargs)

    def _read_as_traced(self, node: Node) -> None:
        for each in node.all_input_nodes:
            node.replace_input_with(each, self._as_traced(each, node))

    def _as_traced(self, node: Node, before: Node) -> Node:
        """A node as torch traced it: a copy, made before another, where it lies otherwise now."""
        if node not in self._traced:
            return node
        if node not in self._plain:
            with self._graph.inserting_before(before):
                self._plain[node] = self._copy(node, _order_of(self._traced[node]))
        return self._plain[node]

    def _with_channels_last(self, node: Node, before: Node) -> Node:
        if _has_channels_last(node):
            return node
        if node not in self._turned:
            with self._graph.inserting_before(before):
                self._turned[node] = self._copy(node, _CHANNELS_LAST)
        return self._turned[node]

    def _copy(self, node: Node, order: Sequence[int]) -> Node:
        """A copy whose dimensions lie in an order, the first one's elements the farthest apart."""
        if tuple(order) == _CHANNELS_LAST:
            return call(self._graph, aten.clone.default, node, memory_format=torch.channels_last)
        turned = [*order] != sorted(order)
        made = call(self._graph, aten.permute.default, node, [*order]) if turned else node
        made = call(self._graph, aten.clone.default, made, memory_format=torch.contiguous_format)
        back = [order.index(dim) for dim in range(len(order))]
        return call(self._graph, aten.permute.default, made, back) if turned else made

    def _leave(self, output: Node) -> None:
        """Give the caller what it expects, and backward of two copies the one that is read."""
        results = list(output.args[0])
        count = len(results) if self._results is None else self._results
        for k, node in enumerate(results):
            if isinstance(node, Node) and k < count:
                results[k] = self._as_traced(node, output)
            elif node in self._read:
                results[k] = self._turned.get(node, node)
        output.args = (tuple(results), *output.args[1:])


def _takes_any_order(node: Node) -> bool:
    """Whether a node gives the same numbers however what it reads lies in memory."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return bool(target.__module__ == "_operator")
    known = target.namespace in _OWN and not has_effects(node)
    known = known and all("val" in each.meta for each in node.all_input_nodes)
    return known and not any(part in name_of(target) for part in _BY_STRIDES)


def _has_channels_last(node: Node) -> bool:
    return bool(node.meta["val"].permute(_CHANNELS_LAST).is_contiguous())


def _is_computed(node: Node) -> bool:
    """Whether a region computes a node, and can write it in any order."""
    name = name_of(node.target)
    return name in TABLE and not any(name in free for free in (VIEWS, READS, FACTORIES))


def _lie_alike(one: Any, other: Any) -> bool:
    """Whether results of a node lie in memory alike; strides of a dimension of 1 do not count."""
    if isinstance(one, tuple | list):
        return all(map(_lie_alike, one, other))
    if not isinstance(one, Tensor):
        return True
    strides = zip(one.shape, one.stride(), other.stride(), strict=True)
    return all(a == b for size, a, b in strides if size != 1)


def _order_of(tensor: Tensor) -> Sequence[int]:
    """Dimensions, from the one whose elements lie the farthest apart to the closest."""
    strides = tensor.stride()
    return sorted(range(tensor.dim()), key=lambda d: -strides[d])
