"""The scheduler of rows that are made of parts."""

from __future__ import annotations

from warpsmith.ir.fusion import Fusion
from warpsmith.ir.program import Program
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.kept import InRegisters
from warpsmith.schedulers.outer_groups.heuristic import faster as images_faster
from warpsmith.schedulers.parts import apply, heuristic, levels
from warpsmith.schedulers.parts.heuristic import Parts
from warpsmith.schedulers.parts.shapes import PartsParams
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.target import Target


class OfParts(InRegisters[Parts]):
    scheduler = "parts"
    sums_parts = True
    view_of = Parts

    @classmethod
    def refusal(cls, fusion: Program, target: Target) -> str:
        return levels.refusal(fusion)

    def unfit(self, problem: Problem) -> str:
        grid = not self.declined_by("inner_grid")
        if reason := heuristic.unsupported_sizes(self.rows, problem, grid=grid):
            return reason
        return "" if self.declined_by("outer_groups") else images_faster(self.rows, problem)

    def parameters(self, problem: Problem) -> PartsParams:
        return heuristic.choose(self.rows, problem)

    def no_ring(self, problem: Problem) -> str:
        return "a block has its rows once, and its threads load them at once"

    def lay(self, fusion: Fusion, caches: tuple[Cached, ...], params: PartsParams) -> None:
        apply.apply(fusion, caches, params)
