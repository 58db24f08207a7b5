"""The scheduler of rows that blocks of a grid, or of a cluster, keep."""

from __future__ import annotations

from warpsmith.ir.fusion import Fusion
from warpsmith.ir.program import Program
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.inner_grid import applicability, apply
from warpsmith.schedulers.inner_grid.heuristic import Shared
from warpsmith.schedulers.inner_grid.shapes import InnerGridParams
from warpsmith.schedulers.kept import WithTheGrid
from warpsmith.targets.target import Target


class InnerGrid(WithTheGrid[Shared]):
    scheduler = "inner_grid"
    view_of = Shared

    @classmethod
    def refusal(cls, fusion: Program, target: Target) -> str:
        return applicability.refusal(fusion)

    def lay(self, fusion: Fusion, caches: tuple[Cached, ...], params: InnerGridParams) -> None:
        apply.apply(fusion, caches, params)
