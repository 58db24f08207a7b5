"""What operations of a region take from each other, by how they take it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from warpsmith.ir.exprs import Move, Reduction, Scan, tensor_inputs
from warpsmith.ir.graph import Graph
from warpsmith.ir.reads import read_elsewhere
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.schedulers.caching import repeats


def narrowest(graph: Graph, number: int, cuts: Collection[int]) -> int:
    """What a tensor is widened from, if that is computed here, else the tensor."""
    while widens(graph.operations[graph.maker[number]]):
        (source,) = graph.sources(graph.maker[number])
        if source not in graph.maker or source in cuts:
            break
        number = source
    return number


def reduced(graph: Graph, positions: Iterable[int]) -> frozenset[int]:
    """What the reductions and scans among operations make."""
    chosen = [p for p in positions if isinstance(graph.operations[p], Reduction | Scan)]
    return frozenset(number for p in chosen for number in graph.made(p))


def widened(graph: Graph, positions: Iterable[int]) -> frozenset[int]:
    """What the operations widen, of what is computed."""
    chosen = [p for p in positions if widens(graph.operations[p])]
    return frozenset(t for p in chosen for t in graph.sources(p) if t in graph.maker)


def sources_of(graph: Graph, sink: int) -> frozenset[int]:
    """What the operation that makes a tensor reads, of what is computed."""
    return frozenset(t for t in graph.sources(graph.maker[sink]) if t in graph.maker)


def read_at_other_places(operation: Operation) -> tuple[TensorView, ...]:
    """What an operation reads at other places than those of the loops that compute it."""
    return tensor_inputs(operation) if repeats(operation) else read_elsewhere(operation)


def reduced_between(graph: Graph, region: Sequence[int], stored: Collection[int]) -> frozenset[int]:
    """Reduced results that are widened or reduced again."""
    depends: set[int] = set()
    between: set[int] = set()
    for position in region:
        operation = graph.operations[position]
        reduced = [t for t in graph.sources(position) if t in depends and t not in stored]
        sums = isinstance(operation, Reduction)
        if reduced and (sums or widens(operation)):
            between.update(reduced)
            reduced = []
        if reduced or sums:
            depends.update(graph.made(position))
    return frozenset(between)


def widens(operation: Operation) -> bool:
    """Whether the result has dimensions that the source lacks, or others."""
    return isinstance(operation, Move) and (
        None in operation.origin or operation.kind in ("expand", "reshape")
    )
