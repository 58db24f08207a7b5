"""What nvFuser says of inputs that do not fit their definition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpsmith.frontends.nvfuser_direct.dtypes import torch_dtype_to_nvfuser_dtype
from warpsmith.frontends.nvfuser_direct.enums import DataType
from warpsmith.frontends.nvfuser_direct.pairs import Pair
from warpsmith.frontends.nvfuser_direct.statements import Val
from warpsmith.frontends.nvfuser_direct.values import TensorView

_NAMES = {
    DataType.Half: "__half",
    DataType.BFloat16: "__bfloat",
    DataType.Int: "int64_t",
    DataType.Int32: "int",
    DataType.Float8_e4m3fn: "__e4m3",
    DataType.Float8_e5m2: "__e5m2",
}
"""Names of types in CUDA, where they are others than here."""


def mismatch(inputs: Sequence[Val], given: Sequence[Any]) -> str:
    """The first input that cannot be what was defined, in nvFuser's words; nothing if all can."""
    for place, (val, value) in enumerate(zip(inputs, given, strict=False)):
        said = _said(val, value)
        if said:
            return said if said.startswith("Scalar") else f"Expected input {place}, {said}"
    return ""


def _said(val: Val, value: Any) -> str:
    is_tensor = hasattr(value, "shape")
    if not isinstance(val, TensorView):
        if is_tensor:
            name = val.name.replace("c", _letter(val.value), 1)
            got = _name(_type_of(value))
            return f"{name}, to be a scalar but got {got} tensor of rank {len(value.shape)}"
        if isinstance(val.value, Pair):
            return ""
        if isinstance(value, complex):
            shown = f"({value.real:g},{value.imag:g})"
            wanted = _name(DataType[val.value.dtype.name])
            return f"Scalar value {shown} is not compatible with the expected data type: {wanted}."
        return ""
    if not is_tensor:
        return f"{val}, to be an at::Tensor but got scalar {value:g}"
    got_type, wanted_type = _type_of(value), val.dtype()
    if got_type is None or got_type is wanted_type:
        return ""
    got, wanted = _name(got_type), _name(wanted_type)
    return f"{val}, to be bound to a tensor of dtype {wanted}, but got a tensor of dtype {got}"


def _letter(scalar: Any) -> str:
    """What names of such scalars begin with."""
    if isinstance(scalar, Pair):
        return "c"
    return "d" if scalar.dtype.is_float else "i"


def _type_of(value: Any) -> DataType | None:
    try:
        return torch_dtype_to_nvfuser_dtype(value.dtype)
    except KeyError:
        return None


def _name(dtype: DataType | None) -> str:
    if dtype is None:
        return "unknown"
    return _NAMES.get(dtype, dtype.value)
