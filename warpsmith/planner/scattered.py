"""Kernels that touch sectors of which they need a part, and what they could read or write instead.

Rows whose result is turned are such: each of its elements is a sector of its own. A kernel that
stores them as they are, and another one, which turns them by tiles of shared memory, move twice the
bytes and whole sectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_

from warpsmith.ir.exprs import Move, Pointwise, Reduction
from warpsmith.ir.graph import Graph
from warpsmith.ir.part import Part
from warpsmith.planner.alike import Label
from warpsmith.planner.decided import Decided
from warpsmith.planner.prices import Planned
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.traffic import Traffic, elements

PRODUCTS = ("matmul", "matmul_by_threads")


def scattered(
    graph: Graph, segments: Sequence[Planned], problem: Problem
) -> Iterator[tuple[Decided, ...]]:
    """Ways for each such kernel, all that are alike together, those first that lose most: what is
    turned is stored before, or once it is, and turned by a kernel of its own; what is reduced of
    rows has a kernel of its own, or one of several results.
    """
    alike: dict[Label, list[Planned]] = {}
    lost: dict[Label, float] = {}
    for planned in segments:
        if more := _lost_us(planned, problem):
            key = planned.segment.shape.key
            alike.setdefault(key, []).append(planned)
            lost[key] = lost.get(key, 0.0) + more
    for key in sorted(alike, key=lambda key: -lost[key]):
        found = (_ways(graph, planned, problem) for planned in alike[key])
        yield tuple(reduce(or_, ways) for ways in zip(*found, strict=True))


def _lost_us(planned: Planned, problem: Problem) -> float:
    """Microseconds that sectors of which a kernel needs a part take besides its bytes."""
    if planned.candidate is None or planned.candidate.scheduler in PRODUCTS:
        return 0.0
    done = planned.candidate.traffic(planned.local(problem))
    target = problem.target
    return done.us(target) - Traffic(done.moved, 0.0, done.issued).us(target)


def _ways(graph: Graph, planned: Planned, problem: Problem) -> list[Decided]:
    across, segment = _across(planned, problem), planned.segment
    # what blocks leave of sums, or a pass adds, is no tensor of the program
    writes = [t.number for t in segment.writes if t.number in graph.maker]
    several = across.intersection(writes)
    found = []
    if isinstance(segment.share, Part):
        before, read = (
            frozenset(each) & graph.maker.keys() for each in _turned(segment.share, across)
        )
        found += [Decided(kept=before, alone=several | read)] if before or read else []
        given = frozenset(_of_rows(segment.share, problem)) & graph.maker.keys()
        found += [Decided(alone=given)] if given and len(writes) == 1 else []
    if len(writes) > 1:
        found += [Decided(alone=frozenset((number,))) for number in writes]
        found += [Decided(alone=several)] if 1 < len(several) < len(writes) else []
    return found


def _across(planned: Planned, problem: Problem) -> frozenset[int]:
    """Numbers of what a kernel reads or writes in sectors apart."""
    assert planned.candidate is not None
    names = planned.candidate.traffic(planned.local(problem)).across
    fusion, segment = planned.candidate.fusion, planned.segment
    local = (*fusion.input_tensors, *(output.value for output in fusion.outputs))
    pairs = zip((*segment.reads, *segment.writes), local, strict=True)
    return frozenset(tensor.number for tensor, own in pairs if own.name in names)


def _of_rows(part: Part, problem: Problem) -> Iterator[int]:
    """What reductions give for each row of a kernel, and its elements are made with."""
    graph, behind = part.graph, set[int]()
    sizes = {number: elements(graph.tensors[number], problem) for number in part.computed}
    for position in part.positions:
        needed, made = behind.intersection(graph.sources(position)), graph.made(position)
        reduces = isinstance(graph.operations[position], Reduction)
        if reduces or needed:
            behind.update(made)
        if not reduces:
            size = max(sizes[each] for each in made)
            yield from (number for number in needed if sizes[number] < size)


def _turned(part: Part, across: frozenset[int]) -> tuple[list[int], list[int]]:
    """Of what a kernel writes across, the values before they are turned; and of what it reads so,
    the values once they are.
    """
    graph, own = part.graph, frozenset(part.positions)

    def moving(position: int | None) -> str:
        """The kind of an operation that moves elements, or copies them; empty for all others."""
        operation = graph.operations[position] if position in own else None
        if isinstance(operation, Pointwise):
            return "set" if operation.op == "set" else ""
        return operation.kind if isinstance(operation, Move) else ""

    written, read = [], []
    for number in across.intersection(part.sinks):
        value, turns = number, False
        while kind := moving(graph.maker.get(value)):
            turns |= kind == "permute"
            (value,) = graph.sources(graph.maker[value])
        if turns and graph.maker.get(value) in own:
            written.append(value)
    for number in across.intersection(part.reads):
        value, turns = number, False
        while len(readers := own.intersection(graph.readers.get(value, ()))) == 1:
            (position,) = readers
            if not (kind := moving(position)):
                break
            turns |= kind == "permute"
            (value,) = graph.made(position)
        if turns:
            read.append(value)
    return written, read
