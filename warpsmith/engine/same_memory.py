"""Results that are views of what a kernel writes: it writes them, and no kernel copies them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warpsmith.engine.allocations import Allocation
from warpsmith.engine.planned import PlannedSegment


def views_of(
    segments: Iterable[PlannedSegment], made: Sequence[Allocation], between: Sequence[Allocation]
) -> dict[str, str]:
    """Names of results by those of the tensors in whose place they are written.

    Args:
        made: results that the call allocates.
        between: what passes between kernels.
    """
    results, parts = ({each.name: each for each in some} for some in (made, between))
    found: dict[str, str] = {}
    for planned in segments:
        pairs = planned.segment.views
        fits = (
            source in parts
            and result in results
            and 0 < parts[source].bytes == results[result].bytes
            for source, result in pairs.items()
        )
        if all(fits) and found.keys().isdisjoint(pairs):
            found |= pairs
    return found
