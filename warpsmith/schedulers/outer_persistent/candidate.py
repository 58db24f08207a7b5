"""The scheduler of columns that stay in the registers of a block, or of a cluster."""

from __future__ import annotations

from warpsmith.ir.fusion import Fusion
from warpsmith.ir.program import Program
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.counts import divides_sums
from warpsmith.schedulers.kept import InRegisters
from warpsmith.schedulers.outer_persistent import apply, heuristic
from warpsmith.schedulers.outer_persistent.heuristic import Columns
from warpsmith.schedulers.outer_persistent.shapes import OuterPersistentParams
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows.applicability import columns_refusal
from warpsmith.targets.target import Target


class OuterPersistent(InRegisters[Columns]):
    scheduler = "outer_persistent"
    sums_parts = True
    view_of = Columns

    @classmethod
    def refusal(cls, fusion: Program, target: Target) -> str:
        return columns_refusal(fusion)

    def unfit(self, problem: Problem) -> str:
        grid = not self.declined_by("outer_grid")
        return heuristic.unsupported_sizes(self.rows, problem, grid=grid)

    def parameters(self, problem: Problem) -> OuterPersistentParams:
        return heuristic.choose(self.rows, problem)

    def no_ring(self, problem: Problem) -> str:
        return "a block has its columns once, and its threads load them at once"

    def multiplies(self, params: OuterPersistentParams) -> bool:
        return divides_sums(self.fusion)

    def lay(
        self, fusion: Fusion, caches: tuple[Cached, ...], params: OuterPersistentParams
    ) -> None:
        apply.apply(fusion, caches, params)
