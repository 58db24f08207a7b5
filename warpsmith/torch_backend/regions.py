"""Which nodes of a graph warpsmith takes, and which of them are one region.

Nodes have levels: a region's nodes have one level, and what torch runs comes between two levels. So
no value leaves a region and comes back to it, and each region is as large as that allows.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Graph, Node

from warpsmith.errors import WarpsmithError
from warpsmith.ir.disjoint import Disjoint
from warpsmith.ir.exprs import Precision
from warpsmith.ir.memory_format import MemoryFormat
from warpsmith.torch_backend.aten import (
    CONVERSIONS,
    FACTORIES,
    PRODUCTS,
    READS,
    TYPES,
    VIEWS,
    name_of,
)
from warpsmith.torch_backend.definition import (
    Definition,
    inputs_first,
    is_scalar,
    stride_order_of,
    tensors_of,
    value_of,
)
from warpsmith.torch_backend.levels import Kind, levels_of
from warpsmith.torch_backend.meanings import NotTaken
from warpsmith.torch_backend.pieces import is_between_vectors
from warpsmith.torch_backend.sizes import UnknownSize, expression_of, is_free, is_number
from warpsmith.torch_backend.updates import joined, misplaced
from warpsmith.torch_backend.writes import (
    WRITES,
    behind_writes,
    element_write,
    is_whole_write,
    writes,
)
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Regions:
    """What becomes of each node of a graph.

    Attributes:
        kinds: of each node but the last, which is the graph's output.
        reasons: why nodes are left to torch.
        members: the nodes that each region takes, in the order of the graph.
        behind: what nodes come behind that they do not read, as `writes.behind_writes` says.
    """

    kinds: Mapping[Node, Kind]
    reasons: Mapping[Node, str]
    members: tuple[tuple[Node, ...], ...]
    behind: Mapping[Node, Sequence[Node]]

    def body(self, region: Sequence[Node]) -> tuple[Node, ...]:
        """All that a region computes: its nodes, and free ones that they read."""
        found: dict[Node, None] = {}
        own = set(region)
        for node in region:
            for source in self._free_before(node, own):
                found.setdefault(source)
            found.setdefault(node)
        return tuple(found)

    def _free_before(self, node: Node, region: set[Node]) -> Iterator[Node]:
        """Free nodes that lead to a node, the first one first; without those that torch's views
        stand for.
        """
        for source in node.all_input_nodes:
            if self.kinds[source] is Kind.free and not self._is_given(source, region):
                yield from self._free_before(source, region)
                yield source

    def _is_given(self, node: Node, region: set[Node]) -> bool:
        """Whether a region reads torch's view, and not what it is a view of.

        It does of parts of what it does not compute that vectors walk, and where that lies in
        another order or shape. What repeats elements is better known to be so, as are sizes.
        """
        name = name_of(first_of(node).target)
        if name in READS:
            overlaps = name == "unfold"
            return not (overlaps or self._is_of(node, region) or is_between_vectors(node))
        if name not in VIEWS or _repeats(node) or self._is_of(node, region):
            return False
        sizes = (size for tensor in tensors_of(node) for size in tensor.shape)
        return all(is_number(size) or is_free(size) for size in sizes) and all(
            self._is_given(each, region)
            for each in node.all_input_nodes
            if self.kinds[each] is Kind.free
        )

    def _is_of(self, node: Node, region: set[Node]) -> bool:
        """Whether a free node is a view of what a region computes."""
        return any(
            each in region or (self.kinds[each] is Kind.free and self._is_of(each, region))
            for each in node.all_input_nodes
        )


def _repeats(node: Node) -> bool:
    """Whether a view has more elements than what it is of."""
    if name_of(node.target) != "expand":
        return False
    shapes = [tensors_of(each)[0].shape for each in (node, *node.all_input_nodes[:1])]
    after, before = ([*map(expression_of, shape)] for shape in shapes)
    return after != before


def first_of(node: Node) -> Node:
    """The node that makes several results, of one of them; else the node itself."""
    if node.target is operator.getitem:
        whole = node.args[0]
        assert isinstance(whole, Node)
        return whole
    return node


def regions_of(graph: Graph, precision: Precision, products: bool) -> Regions:
    """The regions of a graph whose nodes torch traced with fake tensors.

    Args:
        precision: of products of float32.
        products: whether matrix products are taken.
    """
    sorting = _Sorting(precision, products)
    nodes = [node for node in graph.nodes if node.op != "output"]
    behind = behind_writes(nodes)
    if behind is None:  # what reads before a write, and what behind it, is not known
        left = [node for node in nodes if node.op == "call_function"]
        writer = next(filter(writes, nodes))
        reason = f"{writer.target} writes into what the graph reads"
        kinds = {n: Kind.left if n.op == "call_function" else Kind.given for n in nodes}
        return Regions(kinds, dict.fromkeys(left, reason), (), {})
    kinds = {node: sorting.kind(node) for node in nodes}
    order = {node: number for number, node in enumerate(nodes)}
    while True:
        levels = levels_of(nodes, kinds, behind)
        members = tuple(_joined(nodes, kinds, levels))
        if not (refused := misplaced(members, levels, behind)):
            return Regions(kinds, sorting.reasons, joined(members, levels, order), behind)
        kinds |= dict.fromkeys(refused, Kind.left)
        sorting.reasons |= dict.fromkeys(refused, WRITES)


class _Sorting:
    """Tries each node in a fusion of its own; nodes that are alike are tried once."""

    def __init__(self, precision: Precision, products: bool) -> None:
        self._precision = precision
        self._products = products
        self._known: dict[object, str] = {}
        self.reasons: dict[Node, str] = {}
        self._kinds: dict[Node, Kind] = {}

    def kind(self, node: Node) -> Kind:
        found = self._kinds[node] = self._found(node)
        return found

    def _found(self, node: Node) -> Kind:
        if node.op != "call_function":
            return Kind.given
        if node.target is operator.getitem and isinstance(node.args[0], Node):
            return self._part(node, node.args[0])
        name = name_of(node.target)
        free = name in VIEWS or name in READS or name in FACTORIES
        reason = "the option products is off"
        if writes(node) and element_write(node) is None and not is_whole_write(node):
            reason = WRITES
        elif self._products or name not in PRODUCTS:
            key = _alike(node)
            if key not in self._known:
                self._known[key] = self._reason(node, free)
            reason = self._known[key]
        if not reason:
            return Kind.free if free else Kind.taken
        self.reasons[node] = reason
        return Kind.left

    def _part(self, node: Node, whole: Node) -> Kind:
        """One of several results: of the region that makes them."""
        found = self._kinds[whole]
        if found is Kind.left:
            self.reasons[node] = self.reasons[whole]
        return found

    def _reason(self, node: Node, free: bool) -> str:
        """Why no fusion can compute a node; empty where one can."""
        results = tensors_of(node)
        sources = [each for each in node.all_input_nodes if not is_scalar(each)]
        if not results:
            return "its result is no tensor"
        try:
            device = results[0].device
            for tensor in (*results, *(t for each in sources for t in tensors_of(each))):
                _check(tensor, device, name_of(node.target))
            if any(len(tensors_of(each)) != 1 for each in sources):
                raise NotTaken("it reads several tensors as one")
            made = Definition(self._precision)
            inputs = inputs_first(sources)
            ranks = [tensors_of(each)[0].ndim for each in inputs]
            made.add_tensors(inputs, [MemoryFormat((True,) * rank, None) for rank in ranks])
            made.add(node)
            if not free and not writes(node):
                for tensor in results:
                    stride_order_of(tensor)
        except (NotTaken, WarpsmithError) as refusal:
            return str(refusal)
        except UnknownSize as size:
            return f"nothing that it reads tells the size {size}"
        except (TypeError, ValueError) as misfit:  # arguments that the meaning does not know
            return f"its arguments: {misfit}"
        return ""


def _check(tensor: torch.Tensor, device: torch.device, name: str) -> None:
    computes = name not in CONVERSIONS and name not in VIEWS and name not in READS
    if tensor.dtype not in TYPES or (computes and TYPES[tensor.dtype].is_float8):
        raise NotTaken(f"type {str(tensor.dtype).removeprefix('torch.')}")
    if tensor.device != device:
        raise NotTaken(f"tensors on {device} and {tensor.device}")
    if device.type not in ("cpu", "cuda"):
        raise NotTaken(f"device {device}")
    if tensor.layout is not torch.strided:
        raise NotTaken(f"layout {tensor.layout}")


def _alike(node: Node) -> object:
    """What decides whether a fusion takes a node."""

    def shown(value: Any) -> str:
        if isinstance(value, Node):
            tensors = tensors_of(value)
            if not tensors:
                return f"{type(value_of(value)).__name__} {value_of(value)}"
            return ", ".join(_shown(tensor) for tensor in tensors)
        if isinstance(value, tuple | list):
            return f"[{', '.join(map(shown, value))}]"
        return f"{type(value).__name__} {value!r}"

    arguments = (shown(node.args), *(f"{k}={shown(v)}" for k, v in node.kwargs.items()))
    return (str(node.target), arguments, tuple(map(_shown, tensors_of(node))))


def _shown(tensor: torch.Tensor) -> str:
    sizes = [str(expression_of(size)) for size in (*tensor.shape, *tensor.stride())]
    return f"{tensor.dtype} {tensor.device} {sizes}"


def _joined(
    nodes: Sequence[Node], kinds: Mapping[Node, Kind], levels: Mapping[Node, int]
) -> Iterator[tuple[Node, ...]]:
    """Taken nodes of one level that read each other, through free nodes too, or one tensor.

    Those that write into inputs are joined as `updates.joined` says.
    """
    found = Disjoint[Node]()

    def sources(node: Node) -> Iterator[Node]:
        for each in node.all_input_nodes:
            if kinds[each] is Kind.free:
                yield from sources(each)
            else:
                yield each

    read: dict[Node, list[Node]] = {}
    for node in nodes:
        if kinds[node] is Kind.taken:
            found.add(node)
            for each in sources(node):
                if kinds[each] is Kind.taken and levels[each] == levels[node]:
                    found.join(each, node)
                elif tensors_of(each):  # and no number, such as a size
                    read.setdefault(node, []).append(each)
    readers: dict[tuple[Node, int], Node] = {}
    for region in found.sets():
        if not any(map(writes, region)):
            for node in region:
                for each in read.get(node, ()):
                    found.join(readers.setdefault((each, levels[node]), node), node)
    yield from map(tuple, found.sets())
