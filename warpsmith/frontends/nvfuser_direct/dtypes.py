"""Types of PyTorch, and of Python's numbers, by nvFuser's names."""

from __future__ import annotations

from typing import Any

from warpsmith.frontends.nvfuser_direct.enums import DataType

_NUMBERS: dict[type, DataType] = {
    bool: DataType.Bool,
    int: DataType.Int,
    float: DataType.Double,
    complex: DataType.ComplexDouble,
}


_OTHERWISE = {"float64": "double", "float32": "float", "float16": "half"}


def torch_dtype_to_nvfuser_dtype(dtype: Any) -> DataType:
    """The name of a type; KeyError for a type that nvFuser lacks."""
    if isinstance(dtype, type):
        return _NUMBERS[dtype]
    package, _, name = str(dtype).partition(".")
    named = {each.value: each for each in DataType}.get(_OTHERWISE.get(name, name))
    if package != "torch" or named is None:
        raise KeyError(dtype)
    return named


def python_scalar_to_nvfuser_dtype(a: Any) -> DataType:
    """The type of a Python number."""
    return _NUMBERS[type(a)]
