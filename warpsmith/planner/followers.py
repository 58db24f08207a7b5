"""What follows a product element by element, so that its kernel may compute it, too."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from heapq import heapify, heappop, heappush

from warpsmith.ir.exprs import Move, Pointwise
from warpsmith.ir.graph import Graph
from warpsmith.ir.tensor import Operation
from warpsmith.ir.turns import turn_of
from warpsmith.schedulers.matmul.partials import is_partial


def followers(
    graph: Graph, products: tuple[int, ...], last: Mapping[int, int], *, reshapes: bool
) -> tuple[int, ...]:
    """The products of a kernel and all operations on their elements that need nothing but them, and
    what is before them.
    """
    own = last[products[0]]
    made = {number for product in products for number in graph.made(product)}
    chosen = [*products]
    seen = {p for number in made for p in graph.readers.get(number, ()) if p in last}
    pending = list(seen)
    heapify(pending)
    while pending:
        position = heappop(pending)
        operation = graph.operations[position]
        late = [t for t in graph.sources(position) if _last_of(graph, t, last) >= own]
        if any(t not in made for t in late) or not _keeps_elements(
            graph, operation, late, reshapes
        ):
            continue
        chosen.append(position)
        made.update(graph.made(position))
        for reader in graph.readers.get(operation.outputs[0].number, ()):
            if reader in last and reader not in seen:
                seen.add(reader)
                heappush(pending, reader)
    return tuple(chosen)


def until_needed_twice(graph: Graph, grown: tuple[int, ...]) -> tuple[int, ...]:
    """The chain behind the product, up to the first result that more than one operation needs."""
    chosen = [grown[0]]
    inside = set(grown)
    while True:
        (number,) = graph.made(chosen[-1])
        readers = graph.readers.get(number, ())
        if len(readers) != 1 or number in graph.results or readers[0] not in inside:
            return tuple(chosen)
        chosen.append(readers[0])


def only_casts(graph: Graph, positions: Collection[int], product: int) -> bool:
    """Whether these operations are a product and casts of it."""
    return all(p == product or is_cast_of(graph, p, product) for p in positions)


def is_cast_of(graph: Graph, position: int, product: int) -> bool:
    """Whether an operation casts the result of a product."""
    operation = graph.operations[position]
    casts = isinstance(operation, Pointwise) and operation.op == "cast"
    return casts and graph.sources(position) == graph.made(product)


def _keeps_elements(
    graph: Graph, operation: Operation, late: Collection[int], reshapes: bool
) -> bool:
    """Whether it computes each element of its result of one place of a product, or of one beside
    it.
    """
    if isinstance(operation, Move):
        return operation.kind != "expand" and (reshapes or operation.kind != "reshape")
    if is_partial(operation):
        return True
    if not isinstance(operation, Pointwise) and turn_of(operation) is None:
        return False
    size = len(operation.outputs[0].concrete_order())
    return all(len(graph.tensors[number].concrete_order()) == size for number in late)


def _last_of(graph: Graph, number: int, last: Mapping[int, int]) -> int:
    position = graph.maker.get(number)
    return -1 if position is None else last[position]
