"""What windows give that is reduced, and needed again behind that: it is stored.

A kernel that keeps rows computes them before and behind what it reduces. Windows would be read
again, one element by one, and their code stand twice in a kernel that has long code in any case.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from warpsmith.ir.exprs import Reduction
from warpsmith.ir.graph import Graph
from warpsmith.ir.reads import is_window
from warpsmith.planner.crossing import enlarges


def of_windows(
    graph: Graph, region: Sequence[int], sinks: Collection[int], stored: Collection[int]
) -> list[int]:
    """Numbers of what operations of a region make of windows, and of nothing else in memory, of
    which others make sums, and results without these.
    """
    made, free = set[int](), set[int]()
    ends: dict[int, None] = {}
    for position in region:
        sources = [t for t in graph.sources(position) if t not in free]
        if is_window(graph.operations[position]) or (sources and made.issuperset(sources)):
            made.update(set(graph.made(position)).difference(stored))
        elif sources:
            ends |= dict.fromkeys(made.intersection(sources))
        else:
            free.update(graph.made(position))
    again = (number for number in ends if _is_needed_again(graph, region, number, sinks))
    return [*dict.fromkeys(_smallest(graph, number, made) for number in again)]


def _smallest(graph: Graph, number: int, made: Collection[int]) -> int:
    """What a tensor is cast or widened from."""
    while enlarges(graph.operations[graph.maker[number]]):
        (source,) = graph.sources(graph.maker[number])
        if source not in made:
            break
        number = source
    return number


def _is_needed_again(
    graph: Graph, region: Sequence[int], number: int, sinks: Collection[int]
) -> bool:
    """Whether sums are made of a tensor, and results that depend on it otherwise."""
    depends, summed = {number}, False
    for position in region:
        if depends.intersection(graph.sources(position)):
            if isinstance(graph.operations[position], Reduction):
                summed = True
            else:
                depends.update(graph.made(position))
    return summed and not depends.isdisjoint(sinks)
