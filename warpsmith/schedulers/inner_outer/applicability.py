"""When the scheduler of rows beside sums of columns applies."""

from __future__ import annotations

from warpsmith.ir.program import Program
from warpsmith.schedulers.inner_outer.columns import partial_sums, rows_alone, whole_sums
from warpsmith.schedulers.normalization import applicability as rows_can


def refusal(fusion: Program) -> str:
    """Why the scheduler cannot take the fusion; empty when it can.

    It takes what `segment` made of a fusion that reduces rows and columns: sums of columns that
    leave a result for each block.
    """
    columns = partial_sums(fusion)
    if not columns:
        _, reason = whole_sums(fusion)
        return reason or "its sums of columns are not cut into those of each block"
    return rows_can.whole_rows_refusal(rows_alone(fusion, columns))
