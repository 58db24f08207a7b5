"""What the blocks of a launch know at their start."""

from __future__ import annotations

from collections.abc import Mapping

from warpsmith.ir.domains import GRID_TYPES
from warpsmith.kernel.clusters import RANK, rank_of
from warpsmith.kernel.kernel import Kernel


def launch_values(
    kernel: Kernel, values: Mapping[str, int], block: tuple[int, int, int]
) -> dict[str, int]:
    """All that a block knows at its start: sizes, what launches derive from them, its index."""
    known = kernel.with_derived(values)
    known[RANK] = rank_of(block, kernel.launch.cluster)
    return known | {kind.name: place for kind, place in zip(GRID_TYPES, block, strict=True)}
