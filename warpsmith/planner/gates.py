"""Products of one left operand whose results meet, as those of a gated unit do: one kernel."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from warpsmith.ir.exprs import Matmul, Move, Pointwise
from warpsmith.ir.graph import Graph
from warpsmith.planner.epilogues import Epilogue, Offers, around, made_before
from warpsmith.planner.segment import Segments
from warpsmith.reach import reached


def with_gates(segments: Segments, offers: Offers, apart: Collection[int]) -> Offers:
    """The offers where such products are computed together, as tensor cores take them.

    So neither is stored, and the left operand is loaded once.

    Args:
        apart: numbers of products whose epilogue has a kernel of its own, which compute an
            operand, or which are faster apart.
    """
    seconds: dict[int, int] = {}
    for first, second in _candidates(offers):
        free = {first, second}.isdisjoint({*seconds, *seconds.values()})
        if free and not any(offers.graph.made(p)[0] in apart for p in (first, second)):
            seconds[first] = second
    while seconds:
        offers = offers.with_seconds(seconds)
        kept = {f: s for f, s in seconds.items() if _meet_in_a_kernel(segments, offers, f)}
        if kept == seconds:
            return offers
        seconds = kept
    return offers.with_seconds({}) if offers.seconds else offers


def _meet_in_a_kernel(segments: Segments, offers: Offers, first: int) -> bool:
    """Whether tensor cores take a product with its second, and something that both lead to."""
    graph, products = offers.graph, offers.together(first)
    positions, sinks = offers.largest(first)
    if not set.intersection(set(positions), *(_behind(graph, p) for p in products)):
        return False
    operands = frozenset(t for p in products for t in made_before(graph, p))
    stored = around(graph, Epilogue(positions, sinks, operands), offers.crossing)
    return segments.of(sinks, stored).taken_by("matmul")


def _candidates(offers: Offers) -> Iterator[tuple[int, int]]:
    """Pairs of products of one left operand, the second of which could be computed with the first,
    and of whose results something is computed together.
    """
    graph, last = offers.graph, offers.last
    by_left: dict[int, list[int]] = {}
    for product in offers.products:
        operation = graph.operations[product]
        assert isinstance(operation, Matmul)
        by_left.setdefault(operation.a.number, []).append(product)
    for products in by_left.values():
        for place, first in enumerate(products):
            for second in products[place + 1 :]:
                before = [graph.maker[t] for t in graph.sources(second) if t in graph.maker]
                ready = all(last[maker] < last[first] for maker in before)
                if ready and not _behind(graph, first).isdisjoint(_behind(graph, second)):
                    yield first, second


def _behind(graph: Graph, product: int) -> set[int]:
    """Positions of the operations on a product's elements."""

    def readers(position: int) -> list[int]:
        found = (p for number in graph.made(position) for p in graph.readers.get(number, ()))
        return [p for p in found if isinstance(graph.operations[p], Pointwise | Move)]

    return {*reached(readers(product), readers)}
