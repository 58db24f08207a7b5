"""Values of a program: types, dimensions and bounded arrays; and operands in a wanted type."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.programs import bounds
from tests.programs.bounds import SMALLEST, UNIT, Bounded, settled
from tests.programs.program import Dim, InvalidProgramError, ScalarInput
from warpsmith.ir.dtypes import DataType, result_type


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the program.

    Attributes:
        dtype: as the user sees it.
        wide: its values; where it was rounded implicitly, the Float values before that.
    """

    dtype: DataType
    dims: tuple[Dim, ...]
    wide: Bounded

    def narrow(self) -> Bounded:
        """The values as they were rounded."""
        return bounds.converted(self.wide, self.dtype)


def require(holds: bool, what: str) -> None:
    if not holds:
        raise InvalidProgramError(what)


def as_tensor(value: Any) -> Value:
    require(isinstance(value, Value), "a tensor is needed")
    assert isinstance(value, Value)
    return value


def scalar_type(value: Any) -> DataType:
    if isinstance(value, ScalarInput):
        return value.dtype
    if isinstance(value, bool):
        return DataType.Bool
    return DataType.Int if isinstance(value, int) else DataType.Double


def number_of(value: Any) -> Any:
    return value.value if isinstance(value, ScalarInput) else value


def common_type(values: Sequence[Any], beside: bool) -> DataType:
    tensors = [v for v in values if isinstance(v, Value)]
    scalars = tuple(scalar_type(v) for v in values if not isinstance(v, Value))
    if beside and not tensors:
        return result_type((DataType.Bool,), (), scalars)
    return result_type(
        tuple(t.dtype for t in tensors if t.dims),
        tuple(t.dtype for t in tensors if not t.dims),
        scalars,
    )


def operand(value: Any, dtype: DataType) -> Bounded:
    """A tensor, a scalar or a number in the type that is computed in."""
    if isinstance(value, Value):
        read = value.wide if value.dtype is not dtype else value.narrow()
        return bounds.converted(read, dtype)
    held = bounds.exact(scalar_type(value), np.asarray(number_of(value)))
    return bounds.converted(held, dtype)


def perhaps_stored(value: Value) -> Value:
    """What its user knows as 16-bit, where it may or may not be rounded to that in memory: beyond
    that type's range it is infinite there, or is not.
    """
    if not value.dtype.is_half or value.wide.dtype is value.dtype:
        return value
    held = value.wide if value.wide.dtype.is_float else bounds.converted(value.wide, DataType.Float)
    error = held.error + UNIT[value.dtype] * np.abs(held.value) + SMALLEST[value.dtype]
    size = np.abs(held.value) + error
    beyond = np.isfinite(held.value) & (size > bounds.LARGEST[value.dtype])
    error = np.where(beyond | held.unknown, np.inf, error)
    return replace(value, wide=settled(held.dtype, held.value, error))
