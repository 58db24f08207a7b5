"""One operation of the table, applied: promotion, broadcast, the operation, the way back."""

from __future__ import annotations

from warpsmith.errors import DefinitionError
from warpsmith.ir import arithmetic
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Pointwise
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import TensorView, Value
from warpsmith.ops.broadcasting import aligned, joined_axes
from warpsmith.ops.promotion import common_type, converted, in_range, rounded
from warpsmith.ops.table import TABLE, PointwiseOp, Rule
from warpsmith.ops.values import as_value, fusion_of


def apply(name: str, *operands: object) -> Value:
    """The operation `name` of the table; a scalar expression when all operands are scalars.

    Raises DefinitionError for a type that the operation does not take, for static extents that
    differ, and for operands that are neither tensors nor scalars.
    """
    op = TABLE[name]
    values = tuple(as_value(operand, name) for operand in operands)
    tensors = [value for value in values if isinstance(value, TensorView)]
    common = common_type(values[op.conditions :], beside_tensor=bool(tensors))
    _check_supported(op, common)
    compute = op.compute_dtype(common)
    result = op.result_dtype(common)
    if not tensors and op.rule is Rule.FLOAT and not common.is_float:
        compute = result = DataType.Double  # as Python's own functions of integers
    types = (DataType.Bool,) * op.conditions + (compute,) * (len(values) - op.conditions)
    if not tensors:
        scalars = tuple(value for value in values if isinstance(value, Expr))
        made = arithmetic.apply(name, scalars, types, result.compute)
        return made if result.compute is result else arithmetic.convert(made, result)
    fusion = fusion_of(tensors, name)
    if common.is_small_int and compute is common.compute:
        values = (
            *values[: op.conditions],
            *(in_range(value, common) for value in values[op.conditions :]),
        )
    found: dict[tuple[Value, DataType], Value] = {}
    for value, dtype in zip(values, types, strict=True):
        if (value, dtype) not in found:
            found[value, dtype] = converted(value, dtype)
    inputs = aligned([found[v, dtype] for v, dtype in zip(values, types, strict=True)])
    axes = joined_axes(name, [value for value in inputs if isinstance(value, TensorView)])
    output = fusion.tensor(result.compute, axes)
    fusion.append(Pointwise(name, inputs, output))
    return rounded(output, result)


def tensor_of(name: str, *operands: object) -> TensorView:
    """`apply` where one of the operands is a tensor."""
    result = apply(name, *operands)
    assert isinstance(result, TensorView)
    return result


def _check_supported(op: PointwiseOp, dtype: DataType) -> None:
    if op.supports(dtype):
        return
    allowed = ", ".join(d.name for d in DataType if d is not DataType.Index and op.supports(d))
    raise DefinitionError(
        f"{op.name} does not take operands of type {dtype.name}",
        code="WS0118",
        remedy=f"cast to one of {allowed}",
    )
