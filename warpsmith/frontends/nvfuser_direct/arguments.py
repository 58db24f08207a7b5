"""Arguments of operations as warpsmith's operations take them."""

from __future__ import annotations

from typing import Any

from warpsmith.frontends.nvfuser_direct.enums import DataType
from warpsmith.ir.dtypes import DataType as Type
from warpsmith.ir.scalar import Const


def given(value: Any, default: Any) -> Any:
    """An option, which a scalar may be; the default for None."""
    return default if value is None else number(value)


def number(value: Any) -> Any:
    """The number that a constant is."""
    return value.value if isinstance(value, Const) else value


def type_of(dtype: Any) -> Type | None:
    """A type of warpsmith; what was a default is nvFuser's still."""
    if isinstance(dtype, DataType):
        return None if dtype is DataType.Null else Type[dtype.name]
    assert dtype is None or isinstance(dtype, Type)
    return dtype
