"""The scheduler of columns that all blocks of a grid keep."""

from __future__ import annotations

from warpsmith.schedulers.kept import WithTheGrid
from warpsmith.schedulers.outer_grid import applicability, apply
from warpsmith.schedulers.outer_grid.heuristic import Shared


class OuterGrid(WithTheGrid[Shared]):
    scheduler = "outer_grid"
    declines = staticmethod(applicability.refusal)
    lay = staticmethod(apply.apply)
    view_of = Shared
