"""Algebra on a fusion before it is cut and scheduled: equal in exact arithmetic, better in floats.

Rules:
  ONE_PLUS_TANH  `1 + tanh(x) = 2 / (1 + exp(-2 x))`, the heart of the tanh GELU. The right side
                 needs half the instructions and keeps its relative precision where tanh is near
                 -1, which the left side loses.
"""

from __future__ import annotations

from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Operation, Pointwise, Value
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Apply, Const
from warpsmith.ir.tensor import TensorView


def rewrite(fusion: Fusion) -> None:
    """Apply the rules in place; give it a copy."""
    for operation in list(fusion.operations):
        inner = _one_plus_tanh(fusion, operation)
        if inner is not None:
            assert isinstance(operation, Pointwise)
            better = Pointwise("one_plus_tanh", inner.inputs, operation.output)
            fusion.replace(operation, better)
            fusion.operations.remove(inner)


def _one_plus_tanh(fusion: Fusion, operation: Operation) -> Pointwise | None:
    """The tanh inside `1 + tanh(x)`, when nothing else needs it."""
    if not (isinstance(operation, Pointwise) and operation.op == "add"):
        return None
    first, second = operation.inputs
    for tanh, one in ((first, second), (second, first)):
        if not (isinstance(tanh, TensorView) and _is_one(one)):
            continue
        inner = tanh.definition
        if not (isinstance(inner, Pointwise) and inner.op == "tanh"):
            continue
        needed = len(fusion.uses(tanh)) > 1 or tanh.is_output
        if tanh.dtype is DataType.Float and not needed:
            return inner
    return None


def _is_one(value: Value) -> bool:
    if isinstance(value, Apply) and value.op == "cast":
        return _is_one(value.args[0])
    return isinstance(value, Const) and value.value == 1
