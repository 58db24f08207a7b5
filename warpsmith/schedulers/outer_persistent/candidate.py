"""The scheduler of columns that stay in the registers of a block, or of a cluster."""

from __future__ import annotations

from collections.abc import Iterator

from warpsmith.schedulers.counts import divides_sums
from warpsmith.schedulers.kept import InRegisters
from warpsmith.schedulers.outer_persistent import apply, heuristic
from warpsmith.schedulers.outer_persistent.heuristic import Columns
from warpsmith.schedulers.outer_persistent.shapes import OuterPersistentParams
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows.applicability import columns_refusal


class OuterPersistent(InRegisters[Columns]):
    scheduler = "outer_persistent"
    declines = staticmethod(columns_refusal)
    lay = staticmethod(apply.apply)
    sums_parts = True
    view_of = Columns

    def unfit(self, problem: Problem) -> str:
        grid = not self.declined_by("outer_grid")
        return heuristic.unsupported_sizes(self.rows, problem, grid=grid)

    def parameters(self, problem: Problem) -> OuterPersistentParams:
        return heuristic.choose(self.rows, problem)

    def shapes(self, problem: Problem) -> Iterator[tuple[float, OuterPersistentParams]]:
        found = heuristic.considered(self.rows, problem)
        return ((merit[0], params) for merit, params in found)

    def finished(self, params: OuterPersistentParams, problem: Problem) -> OuterPersistentParams:
        return heuristic.finished(self.rows, params, problem)

    def no_ring(self, problem: Problem) -> str:
        return "a block has its columns once, and its threads load them at once"

    def multiplies(self, params: OuterPersistentParams) -> bool:
        return divides_sums(self.fusion)
