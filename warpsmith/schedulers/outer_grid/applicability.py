"""When the blocks of a grid may keep columns that they reduce."""

from __future__ import annotations

from warpsmith.ir.exprs import tensor_inputs
from warpsmith.ir.program import Program
from warpsmith.schedulers.reduction.applicability import after_reduction, reductions
from warpsmith.schedulers.rows.applicability import columns_refusal


def refusal(fusion: Program) -> str:
    """Why the scheduler cannot take the fusion; empty when it can. Its blocks meet once."""
    return columns_refusal(fusion) or meets_twice(fusion)


def meets_twice(fusion: Program) -> str:
    """Which reduction needs another one, so that blocks would meet twice; empty where none does."""
    after = after_reduction(fusion)
    for tensor in reductions(fusion):
        assert tensor.definition is not None
        if any(source in after for source in tensor_inputs(tensor.definition)):
            return f"{tensor.name} reduces what was reduced before"
    return ""
