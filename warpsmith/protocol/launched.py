"""What the blocks of a launch know at their start."""

from __future__ import annotations

from collections.abc import Mapping

from warpsmith.ir.domains import GRID_TYPES
from warpsmith.ir.scalar import evaluate
from warpsmith.kernel.clusters import RANK, rank_of
from warpsmith.kernel.kernel import Kernel, Reciprocal


def launch_values(
    kernel: Kernel, values: Mapping[str, int], block: tuple[int, int, int]
) -> dict[str, int]:
    """All that a block knows at its start: sizes, what launches derive from them, its index."""
    known = dict(values)
    for reciprocal in kernel.reciprocals:
        magic, shift = Reciprocal.values(evaluate(reciprocal.divisor, known))
        known |= {reciprocal.magic.name: magic, reciprocal.shift.name: shift}
    for symbol, value in kernel.derived:
        known.setdefault(symbol.name, evaluate(value, known))
    known[RANK] = rank_of(block, kernel.launch.cluster)
    return known | {kind.name: place for kind, place in zip(GRID_TYPES, block, strict=True)}
