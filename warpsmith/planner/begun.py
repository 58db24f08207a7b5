"""Reductions of what is computed of a product, which the product's kernel may begin.

It leaves a few elements for each row and tile, which the kernel behind it reduces, in place of what
was computed of the product.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from warpsmith.errors import SchedulerRefusal
from warpsmith.ir.exprs import Matmul, Reduction
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.graph import Graph
from warpsmith.ir.mapping import map_of
from warpsmith.ir.tensor import TensorView
from warpsmith.planner.decided import Decided
from warpsmith.planner.epilogues import Offers
from warpsmith.planner.followers import followers
from warpsmith.planner.prices import Planned
from warpsmith.planner.segment import Segment
from warpsmith.schedulers.matmul.partials import (
    cut_columns,
    cut_rows,
    partials_of,
    reduced_places,
)
from warpsmith.schedulers.matmul.shape import shape_of


def begun(offers: Offers, segments: Sequence[Planned]) -> Iterator[tuple[Decided, ...]]:
    """Ways to have kernels of products begin reductions, all of those that are alike."""
    graph = offers.graph
    kinds: dict[object, set[int]] = {}
    for product in offers.firsts:
        positions = followers(graph, offers.together(product), offers.last, reshapes=False)
        made = {number for position in positions for number in graph.made(position)}
        for number in _reduced(graph, product, made):
            kind = _kind_of(number, segments)
            if kind is not None:
                kinds.setdefault(kind, set()).add(number)
    for numbers in kinds.values():
        yield (Decided(begun=frozenset(numbers)),)


def _kind_of(number: int, segments: Sequence[Planned]) -> object:
    """Equal for reductions that kernels which are alike compute likewise."""
    for planned in segments:
        if f"T{number}" in planned.segment.shape.tensors:
            shape = planned.segment.shape
            return shape.key, shape.tensors.index(f"T{number}")
    return None


def _reduced(graph: Graph, product: int, made: Collection[int]) -> Iterator[int]:
    """Numbers of the reductions of what a product's kernel makes, over its columns or its rows."""
    multiplied = graph.operations[product]
    assert isinstance(multiplied, Matmul)
    domains, shape = map_of(graph.fusion), shape_of(multiplied)
    for number in made:
        for position in graph.readers.get(number, ()):
            operation = graph.operations[position]
            if not isinstance(operation, Reduction) or position not in graph.live:
                continue
            if len(operation.outputs) > 1 or not operation.carry.is_simple:
                continue
            places = reduced_places(domains, multiplied, operation.outputs[0])
            whole = (places.issuperset(each) for each in (shape.columns, shape.rows))
            if None not in places and any(whole):
                yield operation.outputs[0].number


def begin_in_products(fusion: Fusion, numbers: Collection[int]) -> None:
    """Cut these reductions in two, in place: the first leaves an element for each row, tile and
    thread.
    """
    graph = Graph.of(fusion)
    chosen = [op for op in fusion.operations if op.outputs[0].number in numbers]
    for operation in chosen:
        assert isinstance(operation, Reduction)
        product = _product_of(graph, operation.outputs[0])
        tensor, domains = operation.outputs[0], map_of(fusion)
        shape, mark = shape_of(product), product.output.name
        cut, along = cut_columns, shape.columns
        if not reduced_places(domains, product, tensor).issuperset(along):
            cut, along = cut_rows, shape.rows
        groups = [domains.group(product.output.root[place]) for place in along]
        cut(tensor, [p for p, a in enumerate(tensor.loop) if domains.group(a) in groups], mark)


def _product_of(graph: Graph, tensor: TensorView) -> Matmul:
    """The product whose elements a tensor is computed of."""
    pending, found = [tensor.number], list[int]()
    for position in graph.slice(pending, ()):
        if isinstance(graph.operations[position], Matmul):
            found.append(position)
    last = graph.operations[max(found)]
    assert isinstance(last, Matmul)
    return last


def check_begun(fusion: Fusion, segments: Iterable[Segment]) -> None:
    """Refuse a plan where another kernel than a product's is to begin a reduction.

    Raises:
        SchedulerRefusal: some other does.
    """
    wanted = {part.name for part in partials_of(fusion)}
    for segment in segments:
        if not wanted.isdisjoint(segment.outputs) and segment.taker != "matmul":
            raise SchedulerRefusal(
                f"no product's kernel begins the reductions {', '.join(sorted(wanted))}",
                remedy="reduce what is stored of the product",
            )
