"""Sums of one part: who writes the part writes the sum, and no kernel is launched for it.

Blocks that share a sum write parts of it, which another kernel adds up. Where a call has one such
block, its part is the sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from warpsmith.engine.allocations import Allocation
from warpsmith.ir.exprs import Reduction
from warpsmith.ir.scalar import evaluate
from warpsmith.ir.tensor import TensorView

if TYPE_CHECKING:
    from warpsmith.engine.planned import PlannedSegment

_OF_ONE: Final = frozenset({"sum", "prod", "max", "min"})
"""Reductions of which one element is its own result."""


def sums_of_one(
    segments: Sequence[PlannedSegment],
    made: Sequence[Allocation],
    between: Sequence[Allocation],
    values: Mapping[str, int],
) -> dict[str, str]:
    """Names of results by those of the parts in whose place they are written.

    Args:
        made: results that the call allocates.
        between: what passes between kernels.
    """
    results, parts = ({each.name: each for each in some} for some in (made, between))
    readers = [name for planned in segments for name in planned.segment.inputs]
    same: dict[str, str] = {}
    for planned in segments:
        pairs = _pairs(planned, values)
        if pairs and all(
            part in parts
            and result in results
            and readers.count(part) == 1
            and _places(parts[part]) == _places(results[result])
            for part, result in pairs.items()
        ):
            same |= pairs
    return {} if 0 in values.values() else same


def launched_for(
    segments: Sequence[PlannedSegment], sums: Mapping[str, str]
) -> dict[int, PlannedSegment]:
    """Segments that have kernels, by their places: others write what those would whose results are
    all among `sums`. The last one of a call lets nobody start.
    """
    written = set(sums.values())
    left = {
        place: planned
        for place, planned in enumerate(segments)
        if not written.issuperset(planned.segment.outputs)
    }
    last = max(left, default=0)
    if left and left[last].followed:
        left[last] = replace(left[last], last=True)
    return left


def _pairs(planned: PlannedSegment, values: Mapping[str, int]) -> dict[str, str] | None:
    """Results of a kernel by the one part of each; None where it does more than add up, or where
    several results have the same part, which can be in the place of one alone.
    """
    found: dict[str, str] = {}
    for operation in planned.segment.fusion.operations:
        if not isinstance(operation, Reduction) or operation.carry.name not in _OF_ONE:
            return None
        (source,), (result,) = operation.sources, operation.outputs
        added = (axis.extent for axis in result.root if axis.is_reduction)
        if not isinstance(source, TensorView) or source.dtype is not result.dtype:
            return None
        if source.name in found or any(evaluate(each, values) != 1 for each in added):
            return None
        found[source.name] = result.name
    return found


def _places(each: Allocation) -> tuple[object, ...]:
    """Its type, and where its elements lie, without dimensions of one."""
    steps: list[int] = []
    step = 1
    for extent in reversed(each.shape):
        steps.insert(0, step)
        step *= extent
    pairs = zip(each.shape, each.strides or steps, strict=True)
    return each.dtype, tuple((extent, stride) for extent, stride in pairs if extent != 1)
