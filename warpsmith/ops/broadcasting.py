"""Bringing operands to one shape: ranks are aligned on the right, extents of 1 are widened."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.errors import DefinitionError
from warpsmith.ir.domains import IterDomain, IterType
from warpsmith.ir.exprs import Move
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Const, Expr
from warpsmith.ir.tensor import TensorView, Value


def axis_of(extent: Expr) -> IterDomain:
    """A new axis; a dimension of constant extent 1 is a broadcast axis."""
    is_one = isinstance(extent, Const) and extent.value == 1
    return IterDomain(extent, IterType.broadcast if is_one else IterType.iteration)


def add_axes(tensor: TensorView, flags: Sequence[bool]) -> TensorView:
    """The tensor with new broadcast axes where `flags` is true; one flag per result dimension."""
    if not any(flags):
        return tensor
    kept = iter(enumerate(tensor.shape_axes))
    axes: list[IterDomain] = []
    origin: list[int | None] = []
    for is_new in flags:
        if is_new:
            axes.append(IterDomain(Const(1), IterType.broadcast))
            origin.append(None)
        else:
            position, axis = next(kept)
            axes.append(IterDomain(axis.extent, axis.kind))
            origin.append(position)
    output = Fusion.of(tensor).tensor(tensor.dtype, tuple(axes))
    Fusion.of(tensor).append(Move("broadcast", tensor, output, tuple(origin), (tuple(flags),)))
    return output


def aligned(values: Sequence[Value]) -> tuple[Value, ...]:
    """Tensors with leading broadcast axes added up to the highest rank; scalars as they are."""
    rank = max(value.rank for value in values if isinstance(value, TensorView))
    made: dict[TensorView, TensorView] = {}
    result: list[Value] = []
    for value in values:
        if not isinstance(value, TensorView):
            result.append(value)
            continue
        if value not in made:
            missing = rank - value.rank
            made[value] = add_axes(value, (True,) * missing + (False,) * value.rank)
        result.append(made[value])
    return tuple(result)


def joined_axes(op: str, tensors: Sequence[TensorView]) -> tuple[IterDomain, ...]:
    """New axes of an element-by-element result; the tensors have one rank.

    Each takes the extent of an operand that is not broadcast there, a constant if one has it.
    Raises DefinitionError where two constants differ.
    """
    return tuple(joined_axis(op, tensors, d) for d in range(tensors[0].rank))


def joined_axis(op: str, tensors: Sequence[TensorView], d: int) -> IterDomain:
    """The same of one dimension."""
    column = [tensor.shape_axes[d] for tensor in tensors]
    concrete = [(t, a.extent) for t, a in zip(tensors, column, strict=True) if not a.is_broadcast]
    if not concrete:
        return IterDomain(Const(1), IterType.broadcast)
    constants = [(tensor, extent) for tensor, extent in concrete if isinstance(extent, Const)]
    for tensor, extent in constants[1:]:
        first, wanted = constants[0]
        if extent != wanted:
            raise DefinitionError(
                f"{op}: dimension {d} of {first.name} has extent {wanted!r} and that of "
                f"{tensor.name} has {extent!r}",
                code="WS0121",
                remedy="extents must be equal, or 1 where a tensor is to be broadcast",
            )
    return IterDomain((constants or concrete)[0][1])
