"""Operands: what a user may give to an operation, and the values of the IR that they become."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import numpy as np

from warpsmith.errors import DefinitionError
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Expr, literal
from warpsmith.ir.tensor import TensorView, Value

Scalar = Expr | float
"""A scalar expression or a Python bool, int or float."""

Operand = TensorView | Expr | float
"""A tensor or a scalar."""

Dims = int | Sequence[int]


class Deferred(ABC):
    """A value that is only put into the fusion when an operation reads it."""

    @abstractmethod
    def resolve(self) -> TensorView:
        """The tensor, made on the first call."""


def as_value(operand: object, op: str) -> Value:
    """`operand` as a value of the IR; Python and NumPy numbers become constants.

    Raises DefinitionError for anything else, and for integers beyond 64 bits.
    """
    if isinstance(operand, TensorView | Expr):
        return operand
    if isinstance(operand, Deferred):
        return operand.resolve()
    number = operand.item() if isinstance(operand, np.generic) else operand
    if isinstance(number, bool | float):
        return literal(number)
    if isinstance(number, int):
        if not -(2**63) <= number < 2**63:
            raise DefinitionError(
                f"{op} got the integer {number}, which has more than 64 bits",
                code="WS0111",
                remedy="use a smaller number or a float",
            )
        return literal(number)
    raise DefinitionError(
        f"{op} got an operand of type {type(operand).__name__}",
        code="WS0112",
        remedy="operands are tensors of the fusion, scalars of it, and Python numbers; arrays come "
        "as arguments",
    )


def as_tensor(operand: object, op: str) -> TensorView:
    """`operand` as a tensor; DefinitionError for a scalar or anything else."""
    value = as_value(operand, op)
    if isinstance(value, TensorView):
        return value
    raise DefinitionError(
        f"{op} got {operand!r}, and needs a tensor",
        code="WS0113",
        remedy="make a tensor of it with full",
    )


def as_scalar(operand: object, op: str) -> Expr:
    """`operand` as a scalar expression; DefinitionError for a tensor or anything else."""
    found = as_value(operand, op)
    if isinstance(found, Expr):
        return found
    raise DefinitionError(
        f"{op} got the tensor {found.name} where a scalar is needed",
        code="WS0120",
        remedy="pass a number or a scalar input of the fusion",
    )


def fusion_of(tensors: Iterable[TensorView], op: str) -> Fusion:
    """The fusion that all of the tensors belong to."""
    first, *others = tensors
    for other in others:
        if other.fusion is not first.fusion:
            raise DefinitionError(
                f"{op} got {first.name} and {other.name} of two different fusions",
                code="WS0114",
                remedy="define all of its operands in one fusion",
            )
    return Fusion.of(first)


def dimension(tensor: TensorView, dim: object, op: str, *, rank: int | None = None) -> int:
    """`dim` as a position from the left; negative counts from the end.

    Of `rank` dimensions, by default the tensor's.
    """
    count = tensor.rank if rank is None else rank
    if isinstance(dim, bool) or not isinstance(dim, int | np.integer):
        raise DefinitionError(
            f"{op} of {tensor.name} got dimension {dim!r}",
            code="WS0115",
            remedy="dimensions are integers, and no numbers that a call passes",
        )
    position = int(dim) + count if dim < 0 else int(dim)
    if not 0 <= position < count:
        raise DefinitionError(
            f"{op} of {tensor.name} got dimension {dim}, which is outside its {count} dimensions",
            code="WS0115",
            remedy=f"use {-count} to {count - 1}" if count else "it has no dimensions",
        )
    return position


def dimensions(tensor: TensorView, dims: Dims | None, op: str) -> tuple[int, ...]:
    """Sorted positions; None means all, and so does 0 or -1 of a tensor that has none.

    DefinitionError for a dimension that comes twice.
    """
    if dims is None:
        return tuple(range(tensor.rank))
    wanted = dims if isinstance(dims, Sequence) else (dims,)
    found = sorted(dimension(tensor, dim, op, rank=max(tensor.rank, 1)) for dim in wanted)
    if len(set(found)) != len(found):
        raise DefinitionError(
            f"{op} of {tensor.name} got dimensions {tuple(wanted)}, where one comes twice",
            code="WS0116",
            remedy="name each dimension once",
        )
    return tuple(found) if tensor.rank else ()
