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
from warpsmith.ir.mapping import DomainMap, map_of
from warpsmith.ir.part import Part
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
    """Ways to have kernels of products begin reductions, all of those that are alike; but for those
    in kernels that keep what is reduced, and so read it in any case.
    """
    graph = offers.graph
    alike: dict[int, tuple[object, int]] = {}
    for planned in segments:
        shape, share, candidate = planned.segment.shape, planned.segment.share, planned.candidate
        if isinstance(share, Part) and candidate is not None and not candidate.keeps:
            places = {name: place for place, name in enumerate(shape.tensors)}
            for number in share.computed:
                alike[number] = shape.key, places[f"T{number}"]
    domains: DomainMap | None = None
    kinds: dict[object, set[tuple[int, int]]] = {}
    for product in offers.firsts:
        for operation in _reduced(offers, product):
            domains = domains or map_of(graph.fusion)
            number = operation.output.number
            if number in alike and _is_of_tiles(graph, product, operation, domains):
                (multiplied,) = graph.made(product)
                kinds.setdefault(alike[number], set()).add((number, multiplied))
    for chosen in kinds.values():
        yield (Decided(begun=frozenset(chosen)),)


def _reduced(offers: Offers, product: int) -> Iterator[Reduction]:
    """The reductions of what is computed of the elements of a product alone."""
    graph = offers.graph
    for position in followers(graph, offers.together(product), offers.last, reshapes=False):
        for number in graph.made(position):
            for reader in graph.readers.get(number, ()):
                operation = graph.operations[reader]
                if not isinstance(operation, Reduction) or reader not in graph.live:
                    continue
                if len(operation.outputs) == 1 and operation.carry.is_simple:
                    yield operation


def _is_of_tiles(graph: Graph, product: int, operation: Reduction, domains: DomainMap) -> bool:
    """Whether all columns of a product, or all rows, are reduced, and nothing that it lacks."""
    multiplied = graph.operations[product]
    assert isinstance(multiplied, Matmul)
    shape, places = shape_of(multiplied), reduced_places(domains, multiplied, operation.output)
    whole = (places.issuperset(each) for each in (shape.columns, shape.rows) if each)
    return None not in places and any(whole)


def begin_in_products(fusion: Fusion, chosen: Collection[tuple[int, int]]) -> None:
    """Cut reductions in two, in place: the first leaves what threads find of a product's tiles.

    Args:
        chosen: number of each, and that of the product's result.
    """
    made = {op.outputs[0].number: op for op in fusion.operations}
    domains = map_of(fusion)
    cuts = []
    for number, product in sorted(chosen):
        multiplied, operation = made[product], made[number]
        assert isinstance(multiplied, Matmul)
        shape, tensor = shape_of(multiplied), operation.outputs[0]
        cut, along = cut_columns, shape.columns
        if not reduced_places(domains, multiplied, tensor).issuperset(along):
            cut, along = cut_rows, shape.rows
        groups = [domains.group(multiplied.output.root[place]) for place in along]
        places = [p for p, axis in enumerate(tensor.loop) if domains.group(axis) in groups]
        cuts.append((cut, tensor, places, multiplied.output.name))
    for cut, tensor, places, mark in cuts:
        cut(tensor, places, mark)


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


def grow(decided: Decided, segments: Iterable[Planned]) -> bool:
    """Whether products' kernels compute more so than reductions: what those that reduce now store
    besides.
    """
    chosen = {number for number, _ in decided.begun}
    for planned in segments:
        share = planned.segment.share
        if isinstance(share, Part) and not chosen.isdisjoint(share.computed):
            makers = (share.graph.operations[share.graph.maker[t]] for t in share.sinks)
            if not all(isinstance(maker, Reduction) for maker in makers):
                return True
    return False
