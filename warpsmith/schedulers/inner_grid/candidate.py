"""The scheduler of rows that blocks of a grid, or of a cluster, keep."""

from __future__ import annotations

from warpsmith.ir.fusion import Fusion
from warpsmith.ir.program import Program
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.inner_grid import applicability, apply, heuristic
from warpsmith.schedulers.inner_grid.heuristic import Shared
from warpsmith.schedulers.inner_grid.shapes import InnerGridParams
from warpsmith.schedulers.kept import WithTheGrid
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.apply import SPLITS
from warpsmith.targets.target import Target


class InnerGrid(WithTheGrid[Shared]):
    scheduler = "inner_grid"
    view_of = Shared

    @classmethod
    def refusal(cls, fusion: Program, target: Target) -> str:
        return applicability.refusal(fusion)

    def unfit(self, problem: Problem) -> str:
        return heuristic.unsupported_sizes(self.rows, problem)

    def parameters(self, problem: Problem) -> InnerGridParams:
        return heuristic.choose(self.rows, problem)

    def symbols(self, params: InnerGridParams, problem: Problem) -> dict[str, int]:
        if params.cluster > 1:
            return {}
        return {SPLITS: heuristic.splits(self.rows, params, problem)}

    def lay(self, fusion: Fusion, caches: tuple[Cached, ...], params: InnerGridParams) -> None:
        apply.apply(fusion, caches, params)
