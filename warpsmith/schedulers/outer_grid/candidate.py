"""The scheduler of columns that all blocks of a grid keep."""

from __future__ import annotations

from warpsmith.ir.fusion import Fusion
from warpsmith.ir.program import Program
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.kept import WithTheGrid
from warpsmith.schedulers.outer_grid import applicability, apply
from warpsmith.schedulers.outer_grid.heuristic import Shared
from warpsmith.schedulers.outer_grid.shapes import OuterGridParams
from warpsmith.targets.target import Target


class OuterGrid(WithTheGrid[Shared]):
    scheduler = "outer_grid"
    view_of = Shared

    @classmethod
    def refusal(cls, fusion: Program, target: Target) -> str:
        return applicability.refusal(fusion)

    def lay(self, fusion: Fusion, caches: tuple[Cached, ...], params: OuterGridParams) -> None:
        apply.apply(fusion, caches, params)
