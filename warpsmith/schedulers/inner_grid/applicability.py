"""When the blocks of a grid may keep rows that they reduce."""

from __future__ import annotations

from warpsmith.ir.program import Program
from warpsmith.schedulers.outer_grid.applicability import meets_twice
from warpsmith.schedulers.rows import applicability as rows_can


def refusal(fusion: Program) -> str:
    """Why the scheduler cannot take the fusion; empty when it can. Its blocks meet once.

    Rows that lie in one piece are left to blocks and clusters, which hold longer ones, too.
    """
    if reason := rows_can.refusal(fusion):
        return reason
    if rows_can.ends_in_rows(fusion):
        return "each of its rows lies in one piece"
    return meets_twice(fusion)
