"""Sums over a number that all elements share, as in a mean."""

from __future__ import annotations

from warpsmith.ir import arithmetic
from warpsmith.ir.exprs import Move, Pointwise, Reduction, takes_moments
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.program import Program
from warpsmith.ir.scalar import Const, Expr, Symbol
from warpsmith.ir.tensor import Operation, TensorView

QUOTIENTS = ("div", "truediv", "divide_full")

MOST = 2.0**126
"""Numbers from one over this to this have a reciprocal of all digits in each type of sums."""


def multiply_by_reciprocals(fusion: Fusion) -> None:
    """Multiply sums of floats by the reciprocal of what they are divided by, in place.

    PyTorch's kernels do the same: that is one rounding more, where the sum has many. A quotient
    takes some 130 cycles. Where a block goes round rows, all its threads wait for that in each of
    their turns; the reciprocal is there before the first row. Where threads have several columns,
    they wait for each of these; the reciprocal is the same for all.

    It is not for roles. A quotient's rare cases are a call, and without a call in its loop ptxas
    keeps what a role counts in uniform registers: LayerNorm backward, 32768 x 4096, takes 217
    microseconds then, and 194 with quotients. Nor is it for kernels that spill without that call,
    which keeps what comes behind it from being computed before: what their tensors know of the
    quotient, the kernel gets back (`kernel/quotients.py`).
    """
    for operation in list(fusion.operations):
        factor = _reciprocal(operation)
        if factor is not None:
            assert isinstance(operation, Pointwise)
            total, count = operation.inputs
            assert isinstance(count, Expr)
            operation.output.quotient = operation.op, count
            fusion.replace(operation, Pointwise("mul", (total, factor), operation.output))


def divides_sums(fusion: Program) -> bool:
    """Whether `multiply_by_reciprocals` would change anything."""
    return any(_reciprocal(operation) is not None for operation in fusion.operations)


def _reciprocal(operation: Operation) -> Expr | None:
    """Of what it divides a sum by, where that is one number."""
    if not (isinstance(operation, Pointwise) and operation.op in QUOTIENTS):
        return None
    total, count = operation.inputs
    while isinstance(total, TensorView) and isinstance(total.definition, Move):
        total = total.definition.source
    definition = total.definition if isinstance(total, TensorView) else None
    sums = takes_moments(definition) or (
        isinstance(definition, Reduction) and definition.op == "sum"
    )
    if not (sums and operation.output.dtype.is_float) or isinstance(count, TensorView):
        return None
    return arithmetic.reciprocal(count) if _has_reciprocal(count) else None


def _has_reciprocal(count: Expr) -> bool:
    """Whether the reciprocal is known to have all its digits: a constant's may, a size's does."""
    if isinstance(count, Const):
        return 1 / MOST <= abs(count.value) <= MOST
    return not any(isinstance(node, Symbol) and node.dtype.is_float for node in count.walk())
