"""The scheduler of columns that all blocks of a grid keep."""

from __future__ import annotations

from warpsmith.ir.fusion import Fusion
from warpsmith.ir.program import Program
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.kept import WithTheGrid
from warpsmith.schedulers.outer_grid import applicability, apply, heuristic
from warpsmith.schedulers.outer_grid.heuristic import Shared
from warpsmith.schedulers.outer_grid.shapes import OuterGridParams
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.apply import SPLITS
from warpsmith.targets.target import Target


class OuterGrid(WithTheGrid[Shared]):
    scheduler = "outer_grid"
    view_of = Shared

    @classmethod
    def refusal(cls, fusion: Program, target: Target) -> str:
        return applicability.refusal(fusion)

    def unfit(self, problem: Problem) -> str:
        return heuristic.unsupported_sizes(self.rows, problem)

    def parameters(self, problem: Problem) -> OuterGridParams:
        return heuristic.choose(self.rows, problem)

    def symbols(self, params: OuterGridParams, problem: Problem) -> dict[str, int]:
        return {SPLITS: heuristic.splits(self.rows, params, problem)}

    def lay(self, fusion: Fusion, caches: tuple[Cached, ...], params: OuterGridParams) -> None:
        apply.apply(fusion, caches, params)
