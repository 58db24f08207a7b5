"""What forward saves for backward: rather what torch gave than what follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from functools import partial
from itertools import accumulate

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg
from torch.utils.checkpoint import CheckpointPolicy

from warpsmith.torch_backend.aten import TABLE, VIEWS, name_of
from warpsmith.torch_backend.changes import call
from warpsmith.torch_backend.definition import bytes_of, value_of
from warpsmith.torch_backend.fused import CHEAP, is_fused, views_of
from warpsmith.torch_backend.regions import first_of
from warpsmith.torch_backend.sizes import hint_of, is_number

aten = torch.ops.aten

_SMALLER = 16
"""How much less than a result an operand must be to count for nothing."""


def forward_of(graph: Graph, results: int) -> Set[Node]:
    """What forward computes of AOTAutograd's graph of forward and backward, whose first results
    are forward's.
    """
    (output,) = graph.find_nodes(op="output")
    return _needed(output.args[0][:results])


def let_compute_again(graph: Graph, results: int) -> None:
    """Let backward compute again what follows from a result of torch's and from little else.

    That result is in memory anyway, and what follows from it need not be, where all that read it
    are fused with it. Torch's partitioner knows that, but computes nothing again that reads what is
    read far apart, as all products of experts share the mask of their words, and no split.

    The graph is AOTAutograd's, of forward and backward, and changed in place:

        before  y = where(mask, 0, x); a, b = split(y, [m, n])
        after   a = where(alias(mask), 0, x[:m]); b = where(alias(mask), 0, x[m:])

    Args:
        results: how many of the graph's are forward's; they come first.
    """
    forward = forward_of(graph, results)
    for node in [node for node in graph.nodes if node in forward and _follows(node)]:
        if all(is_fused(user) for each in (node, *views_of(node)) for user in each.users):
            for part in _parts(graph, node):
                _read_apart(graph, part)


def read_words_again(graph: Graph) -> None:
    """Let backward read rows of embeddings again, of which it needs words and weights alone.

    Torch's partitioner saves them, as what it takes to be no work of kernels. What a model says
    itself of what is computed again, by checkpoints, is left as it is.
    """
    if any("recompute" in node.meta for node in graph.nodes):
        return
    for node in graph.find_nodes(op="call_function", target=aten.embedding.default):
        node.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE


def fill_again(graph: Graph, results: int) -> None:
    """Let backward fill tensors with numbers again that forward fills with them, too.

    Saved, they would be bytes that nobody knows: of rows that are added to zeros, no zeros.
    """
    forward = forward_of(graph, results)
    for node in graph.find_nodes(op="call_function", target=aten.full.default):
        later = [user for user in node.users if user not in forward and user.op != "output"]
        if node in forward and later and not node.all_input_nodes:
            with graph.inserting_before(node):
                again = graph.node_copy(node)
            for user in later:
                user.replace_input_with(node, again)


def save_compared(graph: Graph) -> None:
    """Let backward compute no floats again that it asks for equality.

    A gradient of an extreme asks which elements are equal to it: where forward saved the extreme
    and backward computed the elements again, with other bits, none would be.

    The graph is AOTAutograd's, of forward and backward, whose nodes are marked:

        before  top = amax(sin(x)); eq(sin(x), top) where backward reads it
        after   the same, and sin(x) is saved, or the result of eq
    """
    for operation in (aten.eq.Tensor, aten.ne.Tensor):
        for node in graph.find_nodes(op="call_function", target=operation):
            for source in map(_viewed, node.all_input_nodes):
                known = "recompute" in source.meta or not is_fused(source)
                if not known and value_of(node.args[0]).is_floating_point():
                    source.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def _viewed(node: Node) -> Node:
    """What a node is a view of, or itself."""
    while name_of(node.target) in VIEWS:
        node = node.args[0]
    return first_of(node)


def _needed(results: Iterable[object]) -> Set[Node]:
    """Nodes that lead to results."""
    found: set[Node] = set()
    waiting = [each for each in results if isinstance(each, Node)]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += node.all_input_nodes
    return found


def _follows(node: Node) -> bool:
    """Whether a node is computed of a whole result of torch's, and of little beside that."""
    if name_of(node.target) not in CHEAP:
        return False
    large = [each for each in node.all_input_nodes if not _is_little(each, node)]
    if len(large) != 1 or bytes_of(large[0]) != bytes_of(node):
        return False
    source = first_of(large[0])
    return source.op == "call_function" and name_of(source.target) not in TABLE


def _is_little(operand: Node, result: Node) -> bool:
    return bytes_of(operand) * _SMALLER <= bytes_of(result)


def _parts(graph: Graph, node: Node) -> Sequence[Node]:
    """A node, or in its place the parts of it where a split is all that reads it."""
    split, *others = node.users
    if others or name_of(split.target) not in ("split.Tensor", "split_with_sizes"):
        return (node,)
    shapes = [part.shape for part in split.meta["val"]]
    axis = split.args[2] if len(split.args) > 2 else 0
    axis -= len(shapes[0]) if axis >= 0 else 0
    if not all(is_number(shape[axis]) for shape in shapes):
        return (node,)
    lengths = [hint_of(shape[axis]) for shape in shapes]
    ends = list(accumulate(lengths))

    def sliced(operand: Node, begin: int, end: int) -> Node:
        shape = operand.meta["val"].shape
        if len(shape) < -axis or (is_number(shape[axis]) and shape[axis] == 1):
            return operand
        return call(graph, aten.slice.Tensor, operand, axis, begin, end)

    found = []
    for part in list(split.users):
        end = ends[part.args[1]]
        begin = end - lengths[part.args[1]]
        with graph.inserting_before(split):
            args = map_arg(node.args, partial(sliced, begin=begin, end=end))
            found.append(call(graph, node.target, *args, **node.kwargs))
        part.replace_all_uses_with(found[-1])
        graph.erase_node(part)
    graph.erase_node(split)
    graph.erase_node(node)
    return found


def _read_apart(graph: Graph, node: Node) -> None:
    """Let a node have operands of its own but for the large one."""
    for operand in node.all_input_nodes:
        if _is_little(operand, node):
            with graph.inserting_before(node):
                node.replace_input_with(operand, call(graph, aten.alias.default, operand))
