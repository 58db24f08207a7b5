"""The scheduler of rows that are made of parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warpsmith.ir.domains import IterDomain
from warpsmith.schedulers.kept import InRegisters
from warpsmith.schedulers.outer_groups.heuristic import faster as images_faster
from warpsmith.schedulers.parts import apply, heuristic, levels
from warpsmith.schedulers.parts.parts import Parts
from warpsmith.schedulers.parts.shapes import PartsParams
from warpsmith.schedulers.problem import Problem


class OfParts(InRegisters[Parts]):
    scheduler = "parts"
    declines = staticmethod(levels.refusal)
    lay = staticmethod(apply.apply)
    sums_parts = True
    view_of = Parts

    @property
    def walked(self) -> Sequence[IterDomain]:
        return self.rows.axes

    def unfit(self, problem: Problem) -> str:
        grid = not self.declined_by("inner_grid")
        if reason := heuristic.unsupported_sizes(self.rows, problem, grid=grid):
            return reason
        return "" if self.declined_by("outer_groups") else images_faster(self.rows, problem)

    def parameters(self, problem: Problem) -> PartsParams:
        return heuristic.choose(self.rows, problem)

    def shapes(self, problem: Problem) -> Iterator[tuple[float, PartsParams]]:
        found = heuristic.considered(self.rows, problem)
        return ((merit[0], params) for merit, params in found)

    def finished(self, params: PartsParams, problem: Problem) -> PartsParams:
        return heuristic.finished(self.rows, params, problem)

    def no_ring(self, problem: Problem) -> str:
        return "a block has its rows once, and its threads load them at once"
