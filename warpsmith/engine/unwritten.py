"""Results with elements that no kernel of a call writes, since something beside them is empty."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

from warpsmith.engine.allocations import Allocation
from warpsmith.engine.planned import PlannedSegment
from warpsmith.ir.part import Part
from warpsmith.planner.empty import is_empty


def unwritten_of(
    segments: Sequence[PlannedSegment],
    idle: Collection[int],
    allocations: Sequence[Allocation],
    values: Mapping[str, int],
) -> tuple[str, ...]:
    """Names of the tensors with elements whose kernel is not launched, or has loops without turns
    over what is empty beside them.

    Args:
        idle: places of the segments that are not launched.
    """
    elements = {each.name: prod(each.shape) for each in allocations}
    found: list[str] = []
    for place, planned in enumerate(segments):
        written = planned.segment.writes
        if place not in idle and not _scans_nothing(planned, elements):
            beside = _beside_nothing(planned, values)
            written = tuple(tensor for tensor in written if tensor.number in beside)
        found += (tensor.name for tensor in written if elements[tensor.name])
    return tuple(found)


def _scans_nothing(planned: PlannedSegment, elements: Mapping[str, int]) -> bool:
    scans = planned.candidate is not None and planned.candidate.scheduler == "scan"
    return scans and any(elements[tensor.name] == 0 for tensor in planned.segment.writes)


def _beside_nothing(planned: PlannedSegment, values: Mapping[str, int]) -> frozenset[int]:
    """Numbers of what a kernel writes that is made of nothing empty, where something else is."""
    part = planned.segment.share
    if not isinstance(part, Part):
        return frozenset()
    graph = part.graph
    met = graph.met(part.positions)
    empty = {number for number in met if is_empty(graph.tensors[number], values)}
    if not empty:
        return frozenset()
    made = {sink: graph.met(graph.slice([sink], part.reads)) for sink in part.sinks}
    return frozenset(sink for sink, tensors in made.items() if empty.isdisjoint(tensors))
