"""The scheduler of rows that blocks of a grid, or of a cluster, keep."""

from __future__ import annotations

from warpsmith.schedulers.inner_grid import applicability, apply
from warpsmith.schedulers.inner_grid.heuristic import Shared
from warpsmith.schedulers.kept import WithTheGrid


class InnerGrid(WithTheGrid[Shared]):
    scheduler = "inner_grid"
    declines = staticmethod(applicability.refusal)
    lay = staticmethod(apply.apply)
    view_of = Shared
