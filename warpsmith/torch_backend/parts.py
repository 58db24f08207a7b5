"""Gradients of parts of one tensor, as of the slices that a model takes of it."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence

import torch
from torch.fx import Graph, Node

from warpsmith.torch_backend.changes import call, given
from warpsmith.torch_backend.sizes import hint_of, is_number
from warpsmith.values import dataclass

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class _Part:
    """What lies in zeros, from one place of a dimension to another: of each row of a dimension that
    is taken apart in rows, where it lies there by steps as long as these.
    """

    node: Node
    source: Node
    dim: int
    start: int
    end: int
    one: bool
    rows: int = 0

    def along(self, graph: Graph) -> Node:
        """The part with the dimension of which it may be one place."""
        return (
            call(graph, aten.unsqueeze.default, self.source, self.dim) if self.one else self.source
        )


def join_parts(graph: Graph) -> None:
    """Let parts that are each surrounded by zeros, and added, be joined.

    So a kernel reads what each place has, and not of every part whether it has it; and where one
    part is computed long before the other, no zeros are stored.

    The graph is AOTAutograd's, and changed in place:

        before  y = select_scatter(zeros, a, 1, 0) + b + select_scatter(zeros, c, 1, 1)
        after   y = b + cat([unsqueeze(a, 1), unsqueeze(c, 1)], 1)

    Of other terms there may be one: every place adds two numbers then, whatever the order.
    """
    for root in reversed(graph.find_nodes(op="call_function", target=aten.add.Tensor)):
        if not root.users or not _is_sum(root) or any(_is_inner(root, user) for user in root.users):
            continue
        terms = list(_terms(root))
        parts = sorted(filter(None, map(_part, terms)), key=lambda part: part.start)
        gone = {part.node for part in parts}
        others = [term for term in terms if term not in gone]
        whole = root.meta["val"]
        shape = _in_rows(parts, whole.shape)
        if len(parts) < 2 or len(others) > 1 or not _are_apart(parts, shape):
            continue
        with graph.inserting_before(root):
            total = _joined(graph, parts, whole.new_empty(shape))
            if shape != whole.shape:
                total = call(graph, aten.view.default, total, whole.shape)
            for other in others:
                total = call(graph, aten.add.Tensor, other, total)
        root.replace_all_uses_with(total)
        graph.eliminate_dead_code()


def _is_sum(node: Node) -> bool:
    """Whether a node adds two tensors of its own shape and type."""
    if node.target is not aten.add.Tensor or node.kwargs:
        return False
    return all(isinstance(each, Node) and _kind(each) == _kind(node) for each in node.args)


def _kind(node: Node) -> tuple[torch.dtype, torch.Size] | None:
    tensor = node.meta.get("val")
    return (tensor.dtype, tensor.shape) if isinstance(tensor, torch.Tensor) else None


def _is_inner(node: Node, user: Node) -> bool:
    """Whether a sum is a term of another one, and nothing else."""
    return _is_sum(user) and len(node.users) == 1


def _terms(root: Node) -> Iterator[Node]:
    """What a sum of sums adds, in the order in which it is added."""
    pending = [*reversed(root.args)]
    while pending:
        node = pending.pop()
        if _is_sum(node) and len(node.users) == 1 and node.args[0] is not node.args[1]:
            pending += reversed(node.args)
        else:
            yield node


def _part(node: Node) -> _Part | None:
    """A term as what lies in zeros, where that and its places are numbers."""
    if node.target not in (aten.select_scatter.default, aten.slice_scatter.default):
        return None
    if len(node.users) != 1:
        return None
    told = given(node)
    zeros, source = told["self"], told["src"]
    if zeros.target is not aten.full.default or given(zeros)["fill_value"] != 0:
        return None
    if _kind(zeros) != _kind(node) or source.meta["val"].dtype != node.meta["val"].dtype:
        return None
    shape = node.meta["val"].shape
    dim = told.get("dim", 0) % len(shape)
    if not is_number(shape[dim]):
        return None
    size = hint_of(shape[dim])
    if node.target is aten.select_scatter.default:
        start = told["index"]
        if not isinstance(start, int):
            return None
        return _Part(node, source, dim, start % size, start % size + 1, one=True)
    places = told.get("start"), told.get("end"), told.get("step")
    if not all(each is None or isinstance(each, int) for each in places):
        return None
    start, end, step = slice(*places).indices(size)
    if step > 1:
        all_rows = size % step == 0 and start < step and len(range(start, end, step)) * step == size
        row = _Part(node, source, dim + 1, start, start + 1, one=True, rows=size // step)
        return row if all_rows else None
    return _Part(node, source, dim, start, end, one=False) if start < end else None


def _in_rows(parts: Sequence[_Part], shape: torch.Size) -> torch.Size:
    """The shape, whose dimension of parts that lie there by steps is taken apart."""
    if not parts or not parts[0].rows:
        return shape
    dim, rows = parts[0].dim, parts[0].rows
    return torch.Size((*shape[: dim - 1], rows, hint_of(shape[dim - 1]) // rows, *shape[dim:]))


def _are_apart(parts: Sequence[_Part], whole: torch.Size) -> bool:
    """Whether parts in order lie along one dimension, none in another one; and together are all of
    it, where the zeros between them would have sizes that are no numbers.
    """
    ends = 0, *(part.end for part in parts)
    begins = *(part.start for part in parts), hint_of(whole[parts[0].dim])
    if len({(part.dim, part.rows) for part in parts}) > 1 or any(map(operator.gt, ends, begins)):
        return False
    return ends == begins or all(map(is_number, whole))


def _joined(graph: Graph, parts: Sequence[_Part], whole: torch.Tensor) -> Node:
    """The parts in order, with zeros where there is none."""
    dim, found, place = parts[0].dim, list[Node](), 0

    def fill(end: int) -> None:
        if end > place:
            shape = [*whole.shape[:dim], end - place, *whole.shape[dim + 1 :]]
            kind = {"dtype": whole.dtype, "device": whole.device}
            found.append(call(graph, aten.full.default, shape, 0, **kind))

    for part in parts:
        fill(part.start)
        found.append(part.along(graph))
        place = part.end
    fill(hint_of(whole.shape[dim]))
    return call(graph, aten.cat.default, found, dim)
