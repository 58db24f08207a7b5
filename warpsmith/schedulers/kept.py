"""Rows and columns that stay with blocks: who has them, in which of the ways there are for them."""

from __future__ import annotations

from collections.abc import Mapping

from warpsmith.schedulers.inner_grid import heuristic as rows_grid
from warpsmith.schedulers.inner_grid.shapes import InnerGridParams
from warpsmith.schedulers.outer_grid import heuristic as columns_grid
from warpsmith.schedulers.outer_grid.shapes import OuterGridParams
from warpsmith.schedulers.outer_persistent import heuristic as columns
from warpsmith.schedulers.outer_persistent.shapes import OuterPersistentParams
from warpsmith.schedulers.parts import heuristic as parts
from warpsmith.schedulers.parts.shapes import PartsParams
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows import strategy
from warpsmith.schedulers.rows.params import RowParams
from warpsmith.schedulers.rows.rows import Rows

ROW_SCHEDULERS = ("inner_persistent", "inner_outer")
"""Those whose kernels may have a role that loads rows."""

VIEWS: Mapping[str, type[Rows]] = {
    **dict.fromkeys(ROW_SCHEDULERS, Rows),
    "outer_persistent": columns.Columns,
    "outer_grid": columns_grid.Shared,
    "inner_grid": rows_grid.Shared,
    "parts": parts.Parts,
}
"""By scheduler, what a fusion says of what it keeps."""

KeptParams = RowParams | OuterPersistentParams | OuterGridParams | InnerGridParams | PartsParams


def unsupported_sizes(view: Rows, declined: Mapping[str, str], problem: Problem) -> str:
    """Why a scheduler cannot take a call, or another one had better; empty where it is to.

    Args:
        declined: why others have not taken the fusion, by name.
    """
    grid = "inner_grid" not in declined
    match view:
        case columns_grid.Shared():
            return columns_grid.unsupported_sizes(view, problem)
        case columns.Columns():
            shared = "outer_grid" not in declined
            return columns.unsupported_sizes(view, problem, grid=shared)
        case rows_grid.Shared():
            return rows_grid.unsupported_sizes(view, problem)
        case parts.Parts():
            return parts.unsupported_sizes(view, problem, grid=grid)
    if reason := strategy.unsupported_sizes(view, problem):
        return reason
    return rows_grid.faster(view, problem) if grid and view.in_pieces else ""


def choose(view: Rows, problem: Problem) -> KeptParams:
    """The parameters of a call whose sizes are supported."""
    match view:
        case columns_grid.Shared():
            return columns_grid.choose(view, problem)
        case columns.Columns():
            return columns.choose(view, problem)
        case rows_grid.Shared():
            return rows_grid.choose(view, problem)
        case parts.Parts():
            return parts.choose(view, problem)
    return strategy.choose(view, problem)


def splits(view: Rows, params: KeptParams, problem: Problem) -> int:
    """Blocks of a grid that share a row, or columns; 0 where none do, or those of a cluster."""
    match view, params:
        case columns_grid.Shared(), OuterGridParams():
            return columns_grid.splits(view, params, problem)
        case rows_grid.Shared(), InnerGridParams() if params.cluster == 1:
            return rows_grid.splits(view, params, problem)
    return 0
