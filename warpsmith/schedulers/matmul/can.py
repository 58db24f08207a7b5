"""When the matmul scheduler applies."""

from __future__ import annotations

from warpsmith.ir.exprs import Matmul
from warpsmith.ir.fusion import Fusion


def refusal(fusion: Fusion) -> str:
    """Why the scheduler cannot take the fusion; empty when it can."""
    if not any(isinstance(operation, Matmul) for operation in fusion.operations):
        return "it has no matrix product"
    return "there are no schedules of matrix products yet"
