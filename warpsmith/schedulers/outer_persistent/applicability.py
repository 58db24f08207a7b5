"""When the scheduler of columns that stay in registers applies."""

from __future__ import annotations

from warpsmith.ir.program import Program
from warpsmith.schedulers.normalization.applicability import ends_in_rows, unfit
from warpsmith.schedulers.reduction.applicability import reductions


def refusal(fusion: Program) -> str:
    """Why the scheduler cannot take the fusion; empty when it can.

    Whether columns fit in registers depends on their length, so it is asked of a call:
    `heuristic.unsupported_sizes`.
    """
    reason = unfit(fusion)
    if reason:
        return reason
    if ends_in_rows(fusion, 1):
        return f"{reductions(fusion)[0].name} reduces the fastest dimension"
    return ""
