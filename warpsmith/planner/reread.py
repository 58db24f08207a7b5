"""Kernels that read what an earlier one writes, where they would compute it again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from warpsmith.ir.part import Part
from warpsmith.planner.segment import Segment, Segments


def reread(segments: Segments, found: Iterable[Segment], numbers: Set[int]) -> Iterator[Segment]:
    """The segments, in their order, where a scheduler takes them so.

    Args:
        numbers: of tensors that are read where an earlier segment writes them.
    """
    there: set[int] = set()
    for segment in found:
        part = segment.share
        chosen = segment
        if isinstance(part, Part) and part.graph is segments.graph:
            again = (there & numbers).intersection(part.computed)
            other = segments.of(part.sinks, {*part.reads, *again}) if again else segment
            chosen = other if other.can_be_scheduled else segment
        there |= {tensor.number for tensor in chosen.writes}
        yield chosen
