"""Sums over a number that all elements share, as in a mean."""

from __future__ import annotations

from warpsmith.ir import arithmetic
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Move, Pointwise, Reduction, takes_moments, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.program import Program
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.tensor import Operation, TensorView, Value

QUOTIENTS = ("div", "truediv", "divide_full")

MOST = 2.0**126
"""Numbers from one over this to this have a reciprocal of all digits in each type of sums."""


def multiply_by_reciprocals(fusion: Fusion, *, near: bool = False) -> None:
    """Multiply sums of floats by the reciprocal of what they are divided by, in place.

    `near`: also what is computed of sums alone, and by one within 2 ulp, which takes a few
    instructions, where each thread finds its own for a single row.

    PyTorch's kernels do the same: that is one rounding more, where the sum has many. A quotient
    takes some 130 cycles. Where a block loops over rows, all its threads wait for that in each of
    their turns; the reciprocal is there before the first row. Where threads have several columns,
    they wait for each of these; the reciprocal is the same for all.

    It is not for roles. A quotient's rare cases are a call, and without a call in its loop ptxas
    keeps what a role counts in uniform registers: LayerNorm backward, 32768 x 4096, takes 217
    microseconds then, and 194 with quotients. Nor is it for kernels that spill without that call,
    which keeps what comes behind it from being computed before: what their tensors know of the
    quotient, the kernel gets back (`kernel/quotients.py`).
    """
    for operation in list(fusion.operations):
        factor = _reciprocal(operation, near=near)
        if factor is not None:
            assert isinstance(operation, Pointwise)
            total, count = operation.inputs
            assert isinstance(count, Expr)
            operation.output.quotient = operation.op, count
            fusion.replace(operation, Pointwise("mul", (total, factor), operation.output))


def divides_sums(fusion: Program, *, near: bool = False) -> bool:
    """Whether `multiply_by_reciprocals` would change anything."""
    return any(_reciprocal(operation, near=near) is not None for operation in fusion.operations)


def _reciprocal(operation: Operation, *, near: bool = False) -> Expr | None:
    """Of what it divides a sum by, where that is one number."""
    if not (isinstance(operation, Pointwise) and operation.op in QUOTIENTS):
        return None
    total, count = operation.inputs
    if not (operation.output.dtype.is_float and _is_of_sums(total, computed=near)):
        return None
    if isinstance(count, TensorView) or not _has_reciprocal(count):
        return None
    if near and count.dtype is DataType.Float and not isinstance(count, Const):
        return Apply("divide_full", (Const(1.0, count.dtype), count), count.dtype)
    return arithmetic.reciprocal(count)


def _is_of_sums(value: Value, *, computed: bool) -> bool:
    """Whether a tensor is a sum, or, if that may be, computed of sums and numbers."""
    definition = value.definition if isinstance(value, TensorView) else None
    if isinstance(definition, Reduction):
        return takes_moments(definition) or definition.op == "sum"
    if isinstance(definition, Move) or (computed and isinstance(definition, Pointwise)):
        sources = tensor_inputs(definition)
        return bool(sources) and all(_is_of_sums(each, computed=computed) for each in sources)
    return False


def _has_reciprocal(count: Expr) -> bool:
    """Whether the reciprocal is known to have all its digits: a constant's may, a size's does."""
    if isinstance(count, Const):
        return 1 / MOST <= abs(count.value) <= MOST
    return not any(isinstance(node, Symbol) and node.dtype.is_float for node in count.walk())
