"""Rows that a view merges of an image's channels, as group norms written by hand have them."""

from __future__ import annotations

import operator

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from warpsmith.torch_backend.aten import name_of
from warpsmith.torch_backend.changes import call, given
from warpsmith.torch_backend.definition import tensors_of
from warpsmith.torch_backend.sizes import hint_of, is_number
from warpsmith.values import dataclass

aten = torch.ops.aten

REDUCTIONS = frozenset(
    {"amax", "amin", "mean.dim", "sum.dim_IntList", "var.correction", "var_mean.correction"}
)
CASTS = frozenset({"_to_copy", "prims.convert_element_type"})

Sizes = tuple[int, ...]


def keep_parts(graph: Graph) -> None:
    """Let rows of images be computed as the channels, heights and widths that they are made of,
    where what is computed of them meets numbers of channels: vectors of a row are of one channel.

    The graph is AOTAutograd's, and changed in place:

        before  y = x.view(n, 32, -1); z = (y - y.mean(2, True)).view(n, c, h, w) * scale
        after   y = x.view(n, 32, c // 32, h, w); z = (y - y.mean((2, 3, 4), True)).view(..) * scale
    """
    for node in graph.find_nodes(op="call_function", target=aten.view.default):
        image, rows = _sizes(node.args[0]), _sizes(node)
        if len(rows) == 3 and len(image) > 2 and image[0] == rows[0]:
            channels, groups = image[1], rows[1]
            if 1 < groups < channels and channels % groups == 0:
                parts = (image[0], groups, channels // groups, *image[2:])
                _Parted(graph, image, rows, parts).replace(node)


@dataclass(frozen=True, slots=True)
class _Parted:
    """Shapes of images, of the rows that they are viewed as, and of the parts of these."""

    graph: Graph
    image: Sizes
    rows: Sizes
    parts: Sizes

    def replace(self, start: Node) -> None:
        """Change what is computed of the rows that a view begins, where that meets channels."""
        taken = {start: None}
        for node in list(self.graph.nodes):
            if not taken.keys().isdisjoint(node.all_input_nodes) and self._takes(node, taken):
                taken[node] = None
        ends = [user for node in taken for user in node.users if self._is_end(user)]
        reduced = any(name_of(node.target) in REDUCTIONS for node in taken)
        if not (reduced and any(map(self._meets_channels, ends))):
            return
        made: dict[Node, Node] = {}
        for node in taken:
            with self.graph.inserting_before(node):
                made[node] = self._made(node, made)
        for node, new in made.items():
            for user in [user for user in node.users if user not in made]:
                with self.graph.inserting_before(user):
                    shape = self.image if user in ends else _sizes(node)
                    view = call(self.graph, aten.view.default, new, [*shape])
                if user in ends:
                    user.replace_all_uses_with(view)
                    self.graph.erase_node(user)
                else:
                    user.replace_input_with(node, view)
        for node in reversed(made):
            self.graph.erase_node(node)

    @property
    def _one(self) -> Sizes:
        """The shape of what has one element for a row."""
        return (*self.rows[:2], 1)

    def _is_end(self, node: Node) -> bool:
        return name_of(node.target) == "view" and _sizes(node) == self.image

    def _takes(self, node: Node, taken: dict[Node, None]) -> bool:
        """Whether a node computes on rows, or reduces them."""
        name = name_of(node.target)
        if node.target is operator.getitem:
            return True
        if name in REDUCTIONS:
            how = given(node)
            return how.get("dim") in ([-1], [2]) and how.get("keepdim") is True
        pointwise = torch.Tag.pointwise in getattr(node.target, "tags", ()) or name in CASTS
        operands = (each for each in node.all_input_nodes if each not in taken)
        shapes = (self.rows, self._one)
        return (
            pointwise
            and _sizes(node) in shapes
            and all(_is_one(each) or _sizes(each) in shapes for each in operands)
        )

    def _meets_channels(self, node: Node) -> bool:
        """Whether what is computed of an image is computed with fewer numbers than it has."""
        for user in node.users:
            if name_of(user.target) in CASTS:
                if self._meets_channels(user):
                    return True
            elif torch.Tag.pointwise in getattr(user.target, "tags", ()):
                others = (_sizes(each) for each in user.all_input_nodes if each is not node)
                if any(other and other != self.image for other in others):
                    return True
        return False

    def _made(self, node: Node, made: dict[Node, Node]) -> Node:
        """A node's like, of parts."""
        if not made:
            return call(self.graph, aten.view.default, node.args[0], [*self.parts])
        args, kwargs = map_arg((node.args, node.kwargs), lambda each: self._operand(each, made))
        if name_of(node.target) in REDUCTIONS:
            inside = [*range(2, len(self.parts))]
            args = (args[0], *([inside] if len(args) > 1 else []), *args[2:])
            kwargs = {**kwargs, "dim": inside} if "dim" in kwargs else kwargs
        return call(self.graph, node.target, *args, **kwargs)

    def _operand(self, node: Node, made: dict[Node, Node]) -> Node:
        if node in made or _is_one(node):
            return made.get(node, node)
        shape = (
            self.parts if _sizes(node) == self.rows else self._one + (1,) * (len(self.parts) - 3)
        )
        return call(self.graph, aten.view.default, node, [*shape])


def _sizes(node: object) -> Sizes:
    """The shape of a tensor that lies row by row, where all its sizes are numbers; else nothing."""
    tensors = tensors_of(node) if isinstance(node, Node) else ()
    if len(tensors) != 1 or not tensors[0].is_contiguous():
        return ()
    shape = tensors[0].shape
    return tuple(map(hint_of, shape)) if all(map(is_number, shape)) else ()


def _is_one(node: Node) -> bool:
    """Whether it is a number, or a tensor of one without dimensions."""
    return not any(tensor.dim() for tensor in tensors_of(node))
