"""The pointwise operations behind a product that its kernel computes, too."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from warpsmith.errors import SchedulerRefusal
from warpsmith.ir.exprs import Matmul, Pointwise
from warpsmith.ir.graph import Graph
from warpsmith.planner.crossing import Crossing
from warpsmith.planner.segment import Segment, Segments

SCHEDULERS = ("matmul", "matmul_by_threads")
"""Those that take products, the faster one first."""


@dataclass(frozen=True, slots=True)
class Epilogue:
    """A product with the operations behind it that are computed with it.

    Attributes:
        positions: of these operations, the product's first.
        sinks: numbers of what they make that somebody else needs, or that is a result.
    """

    positions: tuple[int, ...]
    sinks: tuple[int, ...]


def epilogue_of(
    segments: Segments, product: int, last: Mapping[int, int], crossing: Crossing
) -> Epilogue:
    """As much behind a product as the fastest scheduler that takes any of it takes.

    Args:
        product: its position.
        last: by position of an operation, the last product that it depends on.

    Raises:
        SchedulerRefusal: no scheduler takes the product alone.
    """
    tried: list[Segment] = []
    offered = list(_offers(segments.graph, product, last, crossing))
    for scheduler in SCHEDULERS:
        for epilogue in offered:
            found = segments.of(epilogue.sinks, around(segments.graph, epilogue, crossing))
            tried.append(found)
            if found.taken_by(scheduler):
                return epilogue
    reasons = "; ".join(f"{name}: {reason}" for name, reason in tried[-1].refusals)
    raise SchedulerRefusal(
        f"no scheduler can compute {', '.join(tried[-1].outputs)} ({reasons})",
        remedy="split the program into several fusions, or schedule it by hand",
    )


def around(graph: Graph, epilogue: Epilogue, crossing: Crossing) -> frozenset[int]:
    """What must be stored before the kernel of an epilogue runs."""
    made = {number for position in epilogue.positions for number in graph.made(position)}
    product, *behind = epilogue.positions
    operands = [t for t in graph.sources(product) if t in graph.maker]
    read = {t for p in behind for t in graph.sources(p)} - made
    return frozenset(operands) | crossing.of_all(read)


def _offers(
    graph: Graph, product: int, last: Mapping[int, int], crossing: Crossing
) -> Iterator[Epilogue]:
    """What a kernel may compute, the most first."""
    grown = _grown(graph, product, last)
    shorter = _until_needed_twice(graph, grown)
    casts = [p for p in grown[1:] if _is_cast_of(graph, p, grown[0])]
    offers = (grown, shorter, (product, *casts), (product,))
    for positions in dict.fromkeys(offers):
        yield Epilogue(positions, _sinks(graph, positions, crossing))


def _grown(graph: Graph, product: int, last: Mapping[int, int]) -> tuple[int, ...]:
    """The product and all pointwise operations that need nothing but it, and what is before it."""
    own = last[product]
    made = set(graph.made(product))
    shape = len(graph.tensors[graph.made(product)[0]].shape_axes)
    chosen = [product]
    pending = sorted(graph.readers.get(graph.made(product)[0], ()))
    seen = set(pending)
    while pending:
        position = pending.pop(0)
        operation = graph.operations[position]
        if not isinstance(operation, Pointwise) or operation.output.rank != shape:
            continue
        late = [t for t in graph.sources(position) if _last_of(graph, t, last) >= own]
        if position not in last or any(t not in made for t in late):
            continue
        chosen.append(position)
        made.update(graph.made(position))
        more = [p for t in graph.made(position) for p in graph.readers.get(t, ()) if p not in seen]
        seen.update(more)
        pending = sorted({*pending, *more})
    return tuple(chosen)


def _last_of(graph: Graph, number: int, last: Mapping[int, int]) -> int:
    position = graph.maker.get(number)
    return -1 if position is None else last[position]


def _until_needed_twice(graph: Graph, grown: tuple[int, ...]) -> tuple[int, ...]:
    """The chain behind the product, up to the first result that more than one operation needs."""
    chosen = [grown[0]]
    inside = set(grown)
    while True:
        (number,) = graph.made(chosen[-1])
        readers = graph.readers.get(number, ())
        if len(readers) != 1 or number in graph.results or readers[0] not in inside:
            return tuple(chosen)
        chosen.append(readers[0])


def _is_cast_of(graph: Graph, position: int, product: int) -> bool:
    operation = graph.operations[position]
    casts = isinstance(operation, Pointwise) and operation.op == "cast"
    return casts and graph.sources(position) == graph.made(product)


def _sinks(graph: Graph, positions: Collection[int], crossing: Crossing) -> tuple[int, ...]:
    """What of these operations' results is stored: for others to read, or as a result."""
    inside = set(positions)
    made = [number for position in sorted(positions) for number in graph.made(position)]
    stored: set[int] = set()
    for number in made:
        outside = [p for p in graph.readers.get(number, ()) if p not in inside]
        if number in graph.results or any(_multiplies(graph, p) for p in outside):
            stored.add(number)
        if outside:
            stored |= crossing.stored(number)
    return tuple(number for number in made if number in stored)


def _multiplies(graph: Graph, position: int) -> bool:
    return isinstance(graph.operations[position], Matmul)
