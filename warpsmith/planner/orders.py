"""In which order of its dimensions a value lies that passes through memory: as what it is made of.

Images with their channels last are read along channels, and what is computed of them in several
kernels is stored so, too: row-major, one side of each kernel would be read or written crosswise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warpsmith.ir.domains import IterDomain, Split
from warpsmith.ir.exprs import Move, Pointwise, Reduction
from warpsmith.ir.graph import Graph
from warpsmith.ir.memory_format import MemoryFormat
from warpsmith.ir.reads import is_window
from warpsmith.ir.tensor import Operation, TensorView

_KINDS = ("permute", "broadcast", "broadcast_in_dim", "squeeze", "reshape")
"""Moves that give each element once."""

Order = tuple[int, ...]
"""Dimensions of a tensor, from the slowest to the fastest in memory."""


def inherited_formats(graph: Graph) -> dict[int, MemoryFormat]:
    """By number, how computed tensors are stored that are no results, where that is not row-major.

    A value inherits the order in which all that it is computed of lies that has as many dimensions.
    Where these lie otherwise among themselves, it is row-major.
    """
    inputs = {t.number for t in graph.fusion.inputs if isinstance(t, TensorView)}
    orders = inherited_orders(graph)
    if not any(_is_turned(graph.tensors[number], orders[number]) for number in inputs):
        return {}
    found: dict[int, MemoryFormat] = {}
    for number in [each for each in orders if each not in inputs]:
        output, order = graph.tensors[number], orders[number]
        readers = (graph.operations[p] for p in graph.readers.get(output.number, ()))
        if output.number in graph.results or not all(map(_reads_any_order, readers)):
            continue
        if _is_turned(output, order):
            ranks = tuple(len(order) - 1 - order.index(dim) for dim in range(len(order)))
            found[output.number] = MemoryFormat(output.contiguity, ranks)
    return found


def inherited_orders(graph: Graph) -> dict[int, Order]:
    """By number, the order of inputs, and of what is computed of those that lie alike."""
    orders = {t.number: t.memory_order() for t in graph.fusion.inputs if isinstance(t, TensorView)}
    for position in graph.needed:
        operation = graph.operations[position]
        order = _inherited(operation, orders)
        output = operation.outputs[0]
        if order is not None and output.stride_order is None:
            orders[output.number] = order
    return orders


def _is_turned(tensor: TensorView, order: Order) -> bool:
    """Whether dimensions of more than one element lie otherwise than row-major."""
    axes = tensor.shape_axes
    concrete = [dim for dim in order if not axes[dim].is_broadcast]
    return concrete != sorted(concrete)


def _reads_any_order(operation: Operation) -> bool:
    return isinstance(operation, Pointwise | Move | Reduction) or is_window(operation)


def _inherited(operation: Operation, orders: Mapping[int, Order]) -> Order | None:
    """The order of what an operation gives; None where nothing tells it."""
    if isinstance(operation, Move):
        order = orders.get(operation.source.number)
        return None if order is None else _moved(operation, order)
    if is_window(operation):
        return orders.get(operation.sources[0].number)
    if not isinstance(operation, Pointwise):
        return None
    output = operation.output
    count = _count(output)
    sources = [t for t in operation.inputs if isinstance(t, TensorView) and _count(t) == count]
    told = {orders[t.number] for t in sources if t.number in orders}
    return told.pop() if len(told) == 1 else None


def _count(tensor: TensorView) -> int:
    return sum(not axis.is_broadcast for axis in tensor.shape_axes)


def _moved(move: Move, order: Order) -> Order | None:
    """The order of what a move gives of a source that lies in another: none is moved in memory."""
    if move.kind not in _KINDS:
        return None
    root = move.output.root
    new = [axis for axis, dim in zip(root, move.origin, strict=True) if dim is None]
    came = {dim: axis for axis, dim in zip(root, move.origin, strict=True) if dim is not None}
    line = [*new, *(came[dim] for dim in order if dim in came)]
    for transform in move.output.transforms:
        if isinstance(transform, Split):
            place = line.index(transform.axis)
            line[place : place + 1] = transform.results
            continue
        place = line.index(transform.outer)
        if line[place : place + 2] != [transform.outer, transform.inner]:
            return None
        line[place : place + 2] = [transform.axis]
    return _numbered(line, move.output.shape_axes)


def _numbered(line: Sequence[IterDomain], axes: Sequence[IterDomain]) -> Order | None:
    return tuple(map(axes.index, line)) if set(line) == set(axes) else None
