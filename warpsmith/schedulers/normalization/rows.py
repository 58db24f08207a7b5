"""Rows that are needed again, and the parameters of their schedules."""

from __future__ import annotations

import math
from dataclasses import dataclass

from warpsmith.ir.domains import IterDomain
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.program import Program
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.layout import InnerRun, find_inner_run
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.applicability import reductions
from warpsmith.schedulers.reduction.heuristic import memory_ordered


@dataclass(frozen=True, slots=True)
class Rows:
    """The dimensions of the reductions in memory order, and the run that ends them.

    A row lies in several pieces where it has dimensions outside that run.
    """

    axes: tuple[IterDomain, ...]
    run: InnerRun

    @property
    def in_pieces(self) -> bool:
        run = len(self.run.axes) - self.run.start
        return sum(axis.is_reduction for axis in self.axes) > run


def rows_of(fusion: Program, domains: DomainMap, caches: tuple[Cached, ...]) -> Rows:
    """Order the dimensions as the largest input has them in memory."""
    axes = memory_ordered(domains, reductions(fusion)[0], caches)
    start = len(axes)
    while start and axes[start - 1].is_reduction:
        start -= 1
    return Rows(axes, find_inner_run(domains, axes[start:], caches))


def length_of(fusion: Program, problem: Problem) -> int:
    """Elements of a row."""
    reduced = (axis for axis in reductions(fusion)[0].logical if axis.is_reduction)
    return math.prod(problem.size(axis.extent) for axis in reduced)
