"""When rows that are read once are better kept in registers, as those that are read again are."""

from __future__ import annotations

from warpsmith.ir.levels import has_levels
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.reduction.heuristic import LONG_VECTORS
from warpsmith.schedulers.rows.across import unfit_across, vector_across
from warpsmith.schedulers.rows.places import finds_places
from warpsmith.schedulers.rows.rows import Rows
from warpsmith.schedulers.rows.strategy import unsupported_sizes

FEW = 16
"""Accesses of a row up to which the place of an extreme is as soon found in one pass."""

NARROW = 4
"""Bytes of an access from which on it is as good of long rows: 6229x7998 bfloat16 took 30.8 µs so,
and 34.3 by vectors across the ends of rows, 5383x2443 25.4 and 12.6 (one H200, 2026-11-28)."""


def kept_instead(rows: Rows, problem: Problem) -> str:
    """Why a call had better be `inner_persistent`'s; empty where it had not."""
    levels = any(map(has_levels, rows.fusion.operations))  # have accesses of their own
    if levels or rows.weights or not rows.loads or unsupported_sizes(rows, problem):
        return ""
    vector = rows.run.vector(problem)
    vectors = -(-rows.length(problem) // vector)
    if vectors > FEW and finds_places(rows.fusion):
        return "the place of an extreme is found in two passes over a row"
    narrow = vectors <= LONG_VECTORS or vector * max(rows.sizes) < NARROW
    across = narrow and vector < vector_across(rows, problem) and not unfit_across(rows, problem)
    return "its rows begin anywhere in memory" if across else ""
