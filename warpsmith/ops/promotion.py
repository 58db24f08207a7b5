"""Types of operands and results, by PyTorch's rules, and the casts that bring them about.

Arithmetic on floats of 16 and 8 bits is done in Float, and each result is rounded back by a cast
that nobody asked for. An operation that reads such a result reads the Float value before it: within
a fusion nothing is rounded but what the user casts, what leaves, and operands of matrix products.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.errors import DefinitionError
from warpsmith.ir import arithmetic
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.dtypes import DataType, result_type
from warpsmith.ir.exprs import Pointwise
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import TensorView, Value
from warpsmith.ops.values import Operand, as_value


def common_type(values: Sequence[Value], *, beside_tensor: bool = False) -> DataType:
    """Type that operands are promoted to, as `torch.result_type`.

    `beside_tensor` says that a tensor takes part whose type does not count, as `where`'s
    condition: numbers then get PyTorch's default type instead of Python's.
    """
    tensors = [value for value in values if isinstance(value, TensorView)]
    scalars = tuple(
        DataType.Int if value.dtype is DataType.Index else value.dtype
        for value in values
        if isinstance(value, Expr)
    )
    if beside_tensor and not tensors:
        return result_type((DataType.Bool,), (), scalars)
    return result_type(
        tuple(tensor.dtype for tensor in tensors if tensor.rank),
        tuple(tensor.dtype for tensor in tensors if not tensor.rank),
        scalars,
    )


def fresh_axes(tensor: TensorView) -> tuple[IterDomain, ...]:
    """New axes like a tensor's dimensions, for a result of the same shape."""
    return tuple(IterDomain(axis.extent, axis.kind) for axis in tensor.shape_axes)


def unrounded(tensor: TensorView) -> TensorView:
    """The Float value behind a result that was rounded implicitly; else the tensor itself."""
    definition = tensor.definition
    if tensor.implicit_cast and isinstance(definition, Pointwise):
        source = definition.inputs[0]
        assert isinstance(source, TensorView)
        return source
    return tensor


def cast_tensor(tensor: TensorView, dtype: DataType) -> TensorView:
    """A new tensor of type `dtype`, even where the tensor has that type already."""
    output = Fusion.of(tensor).tensor(dtype, fresh_axes(tensor))
    Fusion.of(tensor).append(Pointwise("cast", (tensor,), output))
    return output


def converted(value: Value, dtype: DataType) -> Value:
    """An operand in the type that is computed in."""
    if isinstance(value, Expr):
        return arithmetic.convert(value, dtype)
    source = value if value.dtype is dtype else unrounded(value)
    return source if source.dtype is dtype else cast_tensor(source, dtype)


def in_range(value: Value, dtype: DataType) -> Value:
    """What stands beside tensors of a type, as PyTorch has it: a number in that type, where
    constants must fit, and a tensor of integers without dimensions wrapped to one of integers.
    """
    if isinstance(value, Expr):
        return arithmetic.convert(value, dtype)
    wraps = dtype.is_int and value.dtype.is_int and value.dtype is not dtype and not value.rank
    return cast_tensor(value, dtype) if wraps else value


def converted_tensor(tensor: TensorView, dtype: DataType) -> TensorView:
    """`converted` of a tensor."""
    result = converted(tensor, dtype)
    assert isinstance(result, TensorView)
    return result


def rounded(tensor: TensorView, dtype: DataType) -> TensorView:
    """A result in the type that the user sees, which is not the one it was computed in.

    What reads it later may read the Float value before it; a small integer wraps, and stays so.
    """
    if tensor.dtype is dtype:
        return tensor
    result = cast_tensor(tensor, dtype)
    result.implicit_cast = dtype.is_float
    tensor.narrow = dtype if dtype.is_half else None
    return result


def cast(arg: Operand, dtype: DataType) -> Value:
    """`arg` converted to `dtype`; to the same type too, which rounds what was kept in Float."""
    value = as_value(arg, "cast")
    check_tensor_type(dtype, "cast")
    if isinstance(value, Expr):
        return arithmetic.convert(value, dtype)
    source = unrounded(value)
    return value if source.dtype is dtype and source is value else cast_tensor(source, dtype)


def check_tensor_type(dtype: object, op: str) -> None:
    """DefinitionError unless tensors can have the type."""
    if not isinstance(dtype, DataType) or dtype is DataType.Index:
        allowed = ", ".join(d.name for d in DataType if d is not DataType.Index)
        raise DefinitionError(
            f"{op} got dtype {getattr(dtype, 'name', dtype)}",
            code="WS0117",
            remedy=f"the dtypes are {allowed}",
        )
