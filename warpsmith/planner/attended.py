"""What attention gives, which is stored: no kernel takes it together with sums that follow."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.ir.exprs import Move, Pointwise
from warpsmith.ir.graph import Graph
from warpsmith.ir.levels import has_levels
from warpsmith.planner.crossing import enlarges
from warpsmith.planner.segment import Segments
from warpsmith.schedulers.attention.candidate import Attention


def attended(
    segments: Segments, region: Sequence[int], sinks: Sequence[int], stored: frozenset[int]
) -> list[int]:
    """Numbers of tensors that a kernel of attention each gives; without those from which such a
    kernel goes on to a sink of the region.
    """
    graph = segments.graph
    found: list[int] = []
    for position in region:
        if not has_levels(graph.operations[position]):
            continue
        made = _made_of(graph, position)
        behind = [sink for sink in sinks if position in graph.slice([sink], stored)]
        ends = [number for number in made if _leaves(graph, number, made)]
        if len(ends) == 1 and not any(_is_attention(segments, sink, stored) for sink in behind):
            found += ends
    return [number for number in found if _is_attention(segments, number, stored)]


def _is_attention(segments: Segments, number: int, stored: frozenset[int]) -> bool:
    return segments.of([number], stored).taker == Attention.scheduler


def _made_of(graph: Graph, position: int) -> set[int]:
    """Numbers of a reduction's results, and of what is made of these alone without widening it."""
    made = {*graph.made(position)}
    pending = [*made]
    while pending:
        for reader in graph.readers.get(pending.pop(), ()):
            operation = graph.operations[reader]
            follows = isinstance(operation, Move | Pointwise) and not enlarges(operation)
            if follows and made.issuperset(graph.sources(reader)):
                pending += set(graph.made(reader)) - made
                made.update(graph.made(reader))
    return made


def _leaves(graph: Graph, number: int, made: set[int]) -> bool:
    """Whether others read one of these, or the caller."""
    readers = graph.readers.get(number, ())
    return number in graph.results or any(made.isdisjoint(graph.made(p)) for p in readers)
