"""What a graph writes into its inputs, as caches and running statistics are written.

AOTAutograd's graphs compute the whole of what an input becomes, and copy it there at their end.
Where only a part of it is new, that part is written in its place.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from warpsmith.nn.embeddings import ADDED, add_sums
from warpsmith.torch_backend.aten import PRODUCTS, name_of
from warpsmith.torch_backend.sizes import expression_of
from warpsmith.values import dataclass

aten = torch.ops.aten

_COPY = aten.copy_.default

IN_PLACE: Mapping[Any, Any] = {
    aten.index_put.default: aten.index_put_.default,
    aten.scatter.src: aten.scatter_.src,
    aten.scatter.value: aten.scatter_.value,
    aten.scatter_add.default: aten.scatter_add_.default,
    ADDED: add_sums,
}
"""Operations that give their first argument but for a part, with those that write that part."""

_FRESH = frozenset(
    getattr(aten, name).default
    for name in ("full", "full_like", "new_full", "new_zeros", "ones", "zeros", "zeros_like")
)
"""Operations that make a tensor of nobody else's, all elements alike."""

_INTO_VIEWS: Mapping[Any, Any] = {
    aten.select_scatter.default: aten.select.int,
    aten.slice_scatter.default: aten.slice.Tensor,
}
"""Such ones whose part is a view, with the view: it takes what comes behind the second argument."""

_OF_STRIDES = (aten.view, aten.as_strided, aten.view_as_complex)
"""Views that not every tensor of a shape has."""


WRITES = "it writes into an input"
"""Why torch runs what writes."""


def writes(node: Node) -> bool:
    """Whether a node writes into what it reads."""
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable


@dataclass(frozen=True, slots=True)
class ElementWrite:
    """What a node writes: one element of a dimension of an input of the graph.

    Attributes:
        base: the input.
        index: says which element.
        value: what is written there, of one element along that dimension.
    """

    base: Node
    dimension: int
    index: Node
    value: Node


def element_write(node: Node) -> ElementWrite | None:
    """What a node writes, where it is that: caches of keys and values are written so."""
    if node.target is not aten.index_put_.default or any(node.args[3:]) or node.kwargs:
        return None
    base, indices, value = node.args[:3]
    chosen = [(d, index) for d, index in enumerate(indices) if index is not None]
    if len(chosen) != 1 or not isinstance(value, Node) or base.op != "placeholder":
        return None
    ((dimension, index),) = chosen
    whole, one, part = (each.meta["val"] for each in (base, index, value))
    shape = [1 if d == dimension else size for d, size in enumerate(whole.shape)]
    fits = list(part.shape) == shape and list(one.shape) == [1] and part.dtype is whole.dtype
    return ElementWrite(base, dimension, index, value) if fits else None


def is_whole_write(node: Node) -> bool:
    """Whether a node writes all of an input of the graph, of the same type."""
    if node.target is not _COPY or len(node.args) != 2 or node.kwargs:
        return False
    base, value = node.args
    if not isinstance(value, Node) or base.op != "placeholder":
        return False
    kinds = ((t.dtype, t.device, t.shape) for t in (base.meta["val"], value.meta["val"]))
    return len(set(map(str, kinds))) == 1


def root_of(node: Node) -> Node:
    """What a node is a view of, maybe of views of it; the node itself where it is none."""
    part = node.target is operator.getitem
    maker = node.args[0] if part else node
    assert isinstance(maker, Node)
    if not isinstance(maker.target, torch._ops.OpOverload) or not maker.target.is_view:
        return node
    source = maker.args[0]
    assert isinstance(source, Node)
    return root_of(source)


def _is_view(node: Node) -> bool:
    return root_of(node) is not node


def behind_writes(nodes: Sequence[Node]) -> Mapping[Node, Sequence[Node]] | None:
    """Of nodes that read what others write into, those that they come behind, though they do not
    read them: the last write, and before a write all that read what was there.

    None where it is not an input of the graph that is written into, or not by one argument.
    """
    written: dict[Node, list[Node]] = {}
    for node in filter(writes, nodes):
        into = [k for k, each in enumerate(node.target._schema.arguments) if each.is_write]
        place = node.args[0] if into == [0] and node.args else None
        if not isinstance(place, Node) or root_of(place).op != "placeholder" or node.users:
            return None
        written[root_of(place)] = []
    found: dict[Node, Sequence[Node]] = {}
    for node in nodes:
        if _is_view(node):
            continue
        for root in {root_of(each) for each in node.all_input_nodes} & set(written):
            since = written[root]  # the last write, and what has read since
            if writes(node) and root_of(node.args[0]) is root:
                found[node] = (*found.get(node, ()), *since)
                written[root] = [node]
                continue
            found[node] = (*found.get(node, ()), *filter(writes, since[:1]))
            since.append(node)
    return found


def fills_its_own(node: Node, by_torch: Collection[Node]) -> bool:
    """Whether a node gives a tensor but for a part, that was made for it alone by another in each
    call: its own operation in place gives the same, and copies nothing.

    The gradient of `x[index]` is such, added up in zeros, and what words add to a product.
    """
    base = node.args[0] if node.target in IN_PLACE else None
    if not isinstance(base, Node):
        return False
    if product_alone(base) is None and (base not in by_torch or base.target not in _FRESH):
        return False
    read: list[Node] = []
    map_arg((node.args, node.kwargs), read.append)
    return list(base.users) == [node] and read.count(base) == 1


def product_alone(node: Node) -> Node | None:
    """The product that a node is, or a view of, where nothing else reads it; else None."""
    product = root_of(node)
    while node is not product:
        if len(node.users) != 1:
            return None
        node = node.args[0]
    return product if len(product.users) == 1 and name_of(product.target) in PRODUCTS else None


def write_in_place(graph: Graph) -> None:
    """Write parts of inputs where the graph copies the whole of what they become.

    The graph is AOTAutograd's, and changed in place: `index_put(x, ...)` that is read, and copied
    into x, becomes `index_put_(x, ...)`, behind which x is read.
    """
    (output,) = graph.find_nodes(op="output")
    leaving = {root_of(node) for node in output.all_input_nodes}
    copies = list(graph.find_nodes(op="call_function", target=_COPY))
    for copy in copies:  # those of parts, which may be of parts again, follow as they are made
        given, made = copy.args[:2]
        copy.replace_all_uses_with(given)
        steps = tuple(_steps(given, made)) if isinstance(made, Node) else ()
        if not steps or leaving & {root_of(given), *steps}:
            continue
        order = {node: number for number, node in enumerate(graph.nodes)}
        bases = (root_of(given), *steps[:-1])
        lies = all(_lies_as(given, step, copy) for step in steps)
        if lies and all(_ends(*pair, copy, order) for pair in zip(bases, steps, strict=True)):
            graph.erase_node(copy)
            copies += [part for step in steps for part in _write(graph, step)]


def _steps(given: Node, made: Node) -> Iterator[Node]:
    """The operations that lead from a tensor to what is copied into it; nothing where others do."""
    if made.target in IN_PLACE or made.target in _INTO_VIEWS:
        before = made.args[0]
        assert isinstance(before, Node)
        if _is_same(before, given):
            yield made
        elif steps := tuple(_steps(given, before)):
            yield from (*steps, made)


def _is_same(one: Node, other: Node) -> bool:
    """Whether two nodes are the same view of the same tensor, or the same node."""
    if one is other:
        return True
    alike = _is_view(one) and (one.target, one.kwargs) == (other.target, other.kwargs)
    if not alike or one.args[1:] != other.args[1:]:
        return False
    sources = (one.args[0], other.args[0])
    return _is_same(*sources)


def _ends(base: Node, step: Node, copy: Node, order: Mapping[Node, int]) -> bool:
    """Whether nobody reads a tensor as it was when a step has written into it."""
    same = [base]
    for node in same:  # views of it follow as they are met
        for user in node.users:
            if _is_view(user):
                same.append(user)
            elif order[step] < order[user] < order[copy]:
                return False
    read: set[Node] = set()
    map_arg((step.args[1:], step.kwargs), read.add)
    return not read & set(same)


def _lies_as(given: Node, step: Node, copy: Node) -> bool:
    """Whether what reads a step can read instead what it is written into, where that has gaps: what
    gives the whole has none, and torch has seen that it can be viewed in other shapes.
    """
    strides = ([*map(expression_of, each.meta["val"].stride())] for each in (given, step))
    if operator.eq(*strides):
        return True
    same = [step]
    for node in same:
        for user in node.users:
            if _is_view(user):
                if getattr(user.target, "overloadpacket", None) in _OF_STRIDES:
                    return False
                same.append(user)
    return True


def _write(graph: Graph, step: Node) -> Iterator[Node]:
    """Let a step write into its first argument, which takes its place: the copy that does, if one
    does."""
    base, *others = step.args
    with graph.inserting_before(step):
        if step.target in IN_PLACE:
            made = graph.call_function(IN_PLACE[step.target], step.args, step.kwargs)
        else:
            source, *where = others
            if source.target is aten.copy.default:  # converted and repeated as `copy_` does
                source = source.args[1]
            function = _INTO_VIEWS[step.target]
            view = graph.call_function(function, (base, *where), step.kwargs)
            args, kwargs = map_arg((view.args, view.kwargs), lambda node: node.meta["val"])
            view.meta["val"] = function(*args, **kwargs)
            made = graph.call_function(_COPY, (view, source))
            yield made
    made.meta["val"] = made.args[0].meta["val"]
    step.replace_all_uses_with(base)
    graph.erase_node(step)
    for node in others:
        if isinstance(node, Node) and node.target is aten.copy.default and not node.users:
            graph.erase_node(node)
