"""Gradients of embeddings by kernels of ours."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import accumulate
from typing import Any

import torch
from torch.fx import Graph, Node

from warpsmith.nn import embeddings
from warpsmith.nn.calls import NAMES
from warpsmith.torch_backend.changes import call, given
from warpsmith.torch_backend.sizes import is_number
from warpsmith.torch_backend.writes import product_alone

aten = torch.ops.aten

COPIED = 1 << 24
"""Bytes of a gradient that are copied beside others in less time than the kernels of one embedding
take to start.
"""

ALIGNED = 16
"""Rows of a result begin at a multiple of so many, whose bytes any kernel reads in vectors."""


def join_embeddings(graph: Graph) -> None:
    """Sum gradients of several embeddings on a GPU as that of one, whose rows theirs are.

        before  embedding_dense_backward(dy, i, 99), embedding_dense_backward(dz, j, 5)
        after   all = embedding_dense_backward(cat(dy, dz), cat(i, j + 112), 144)
                all[:99], all[112:117]

    Words that have no row of theirs, or are padding, get the last row of all, which nobody reads.
    The graph is AOTAutograd's, and changed in place.
    """
    for group in [*_groups(graph)]:
        *_, last = group
        with graph.inserting_before(last):
            _join(graph, group)


def _groups(graph: Graph) -> Iterator[list[Node]]:
    """Gradients of embeddings that can be computed at one place, in order, two or more."""
    numbers = {node: number for number, node in enumerate(graph.nodes)}
    groups: dict[object, list[Node]] = {}
    for node in graph.find_nodes(op="call_function", target=aten.embedding_dense_backward.default):
        if (kind := _joins(node)) is None:
            continue
        group = groups.setdefault(kind, [])
        if any(numbers[user] < numbers[node] for each in group for user in each.users):
            yield group
            group = groups[kind] = []
        group.append(node)
    yield from groups.values()


def _joins(node: Node) -> object | None:
    """What gradients that are summed together have in common; None where one is summed alone."""
    asked = given(node)
    slopes, words = (asked[name].meta["val"] for name in ("grad_output", "indices"))
    sizes = *slopes.shape, *words.shape, asked["num_weights"]
    if not _is_ours(node) or not all(map(is_number, sizes)) or _total(node) is not None:
        return None
    if not 0 < slopes.numel() * slopes.element_size() <= COPIED:
        return None
    return slopes.dtype, slopes.device, slopes.shape[-1], words.dtype


def _join(graph: Graph, group: Sequence[Node]) -> None:
    if len(group) == 1:
        return
    asked = [given(node) for node in group]
    width = asked[0]["grad_output"].meta["val"].shape[-1]
    aligned = (-(-each["num_weights"] // ALIGNED) * ALIGNED for each in asked)
    *starts, end = accumulate(aligned, initial=0)
    nowhere = end + ALIGNED - 1
    slopes, words = [], []
    for each, start in zip(asked, starts, strict=True):
        slopes.append(_flat(graph, each["grad_output"], [-1, width]))
        words.append(_moved(graph, _flat(graph, each["indices"], [-1]), each, start, nowhere))
    dy, places = (call(graph, aten.cat.default, each) for each in (slopes, words))
    made = call(
        graph, aten.embedding_dense_backward.default, dy, places, nowhere + 1, nowhere, False
    )
    for node, each, start in zip(group, asked, starts, strict=True):
        rows = call(graph, aten.slice.Tensor, made, 0, start, start + each["num_weights"])
        node.replace_all_uses_with(rows)
        graph.erase_node(node)


def _moved(graph: Graph, word: Node, asked: Mapping[str, Any], start: int, nowhere: int) -> Node:
    """Words as rows of all, from where theirs begin."""
    none = call(graph, aten.lt.Scalar, word, 0)
    for other in (
        call(graph, aten.ge.Scalar, word, asked["num_weights"]),
        call(graph, aten.eq.Scalar, word, asked["padding_idx"]),
    ):
        none = call(graph, aten.logical_or.default, none, other)
    kind = word.meta["val"]
    last = call(graph, aten.full.default, [], nowhere, dtype=kind.dtype, device=kind.device)
    moved = call(graph, aten.add.Tensor, word, start)
    return call(graph, aten.where.self, none, last, moved)


def _flat(graph: Graph, node: Node, shape: Sequence[int]) -> Node:
    """A tensor as rows, or as a row."""
    kind = node.meta["val"]
    if kind.dim() == len(shape):
        return node
    if not kind.is_contiguous():
        node = call(graph, aten.clone.default, node, memory_format=torch.contiguous_format)
    return call(graph, aten.view.default, node, shape)


def _is_ours(node: Node) -> bool:
    """Whether kernels of ours sum a gradient."""
    asked = given(node)
    slopes = asked["grad_output"].meta["val"]
    fits = slopes.device.type == "cuda" and slopes.dtype in NAMES
    return fits and not asked["scale_grad_by_freq"] and bool(is_number(asked["num_weights"]))


def sum_embeddings(graph: Graph) -> None:
    """Have gradients of embeddings on a GPU summed by `nn.embeddings`.

    Where several are of the same words, these are sorted once. The graph is AOTAutograd's, and
    changed in place.
    """
    for node in graph.find_nodes(op="call_function", target=aten.embedding_dense_backward.default):
        if _is_ours(node) and (total := _total(node)) is not None:
            _add(graph, node, total)
    for (words, rows, padding), group in _of_equal_words(graph).items():
        if len(group) > 1 and _are_sorted(words):
            _sum_at_places(graph, group, words, rows, padding)
        else:
            _replace(graph, group, embeddings.SUMMED, words, rows, padding)


def sort_once(graph: Graph, forward: Set[Node]) -> None:
    """Let backward find what it sums by words where forward found it, which sums by them, too.

    Args:
        graph: AOTAutograd's, of forward and backward, and changed in place.
        forward: what forward computes.
    """
    for (words, rows, padding), group in _of_equal_words(graph).items():
        early = sum(node in forward for node in group)
        if 0 < early < len(group) and _are_sorted(words):
            _sum_at_places(graph, group, words, rows, padding)


def _of_equal_words(graph: Graph) -> Mapping[tuple[Node, int, int], list[Node]]:
    alike: dict[tuple[Node, int, int], list[Node]] = {}
    for node in graph.find_nodes(op="call_function", target=aten.embedding_dense_backward.default):
        if _is_ours(node):
            asked = given(node)
            key = asked["indices"], asked["num_weights"], asked["padding_idx"]
            alike.setdefault(key, []).append(node)
    return alike


def _are_sorted(words: Node) -> bool:
    count = words.meta["val"].numel()
    return is_number(count) and embeddings.FEW < count <= embeddings.MOST


def _sum_at_places(
    graph: Graph, group: Sequence[Node], words: Node, rows: int, padding: int
) -> None:
    with graph.inserting_before(group[0]):
        places = call(graph, embeddings.PLACES, words, rows, padding)
        each = [call(graph, operator.getitem, places, k) for k, _ in enumerate(places.meta["val"])]
    _replace(graph, group, embeddings.SUMS_AT, each)


def _replace(graph: Graph, group: Sequence[Node], target: Any, *told: Any) -> None:
    for node in group:
        with graph.inserting_before(node):
            sums = call(graph, target, given(node)["grad_output"], *told)
        node.replace_all_uses_with(sums)
        graph.erase_node(node)


def _add(graph: Graph, node: Node, total: Node) -> None:
    """Add a gradient to a product, which nothing else reads."""
    asked = given(node)
    (other,) = (each for each in total.all_input_nodes if each is not node)
    told = (asked[name] for name in ("grad_output", "indices", "padding_idx"))
    with graph.inserting_before(total):
        sums = call(graph, embeddings.ADDED, other, *told)
    total.replace_all_uses_with(sums)
    for gone in (total, node):
        graph.erase_node(gone)


def _total(node: Node) -> Node | None:
    """The sum of a gradient and of a product that nothing else reads, as logits leave of words'
    weights; None where the gradient is needed otherwise.
    """
    total, *others = node.users
    if others or total.target is not aten.add.Tensor or total.kwargs:
        return None
    found = [each for each in total.args if each is not node]
    if len(found) != 1 or not isinstance(found[0], Node):
        return None
    made, kinds = node.meta["val"], found[0].meta["val"]
    alike = (made.shape, made.dtype) == (kinds.shape, kinds.dtype) and kinds.is_contiguous()
    return total if alike and product_alone(found[0]) is not None else None
