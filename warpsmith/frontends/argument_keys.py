"""A call's arguments as the engine takes them, and what of them a trace depends on, as keys."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from warpsmith.errors import ArgumentError
from warpsmith.frontends.memory_format import memory_format_of
from warpsmith.ir.dtypes import DataType
from warpsmith.runtime import arrays
from warpsmith.values import dataclass

NUMBERS = {bool: DataType.Bool, int: DataType.Int, float: DataType.Double}


@dataclass(frozen=True, slots=True)
class Default:
    """A number that a parameter has by default, which is part of the program: 1, 1.0 and True are
    not the same.
    """

    number: bool | float
    kind: type


class Unusual(Exception):
    """An argument that has to be converted first."""


def exact(args: Sequence[Any]) -> tuple[object, ...]:
    """All that a trace may depend on, and more, as cheap as can be: made at every call."""
    parts: list[object] = []
    for value in args:
        kind = type(value)
        if kind in NUMBERS:
            parts.append(kind)
        elif hasattr(value, "data_ptr"):  # PyTorch
            if arrays.consists_of_others(value):
                raise Unusual
            start = arrays.start_of(value)
            parts.append((value.dtype, value.shape, value.stride(), value.get_device(), start))
        elif kind is np.ndarray:
            aligned = value.ctypes.data & 15
            parts.append((value.dtype, value.shape, value.strides, aligned))
        elif isinstance(value, np.generic) or hasattr(value, "__dlpack_device__"):
            raise Unusual
        else:
            parts.append(_static(value))
    return tuple(parts)


def _static(value: Any) -> tuple[object, ...]:
    """A static value with its types: 1, 1.0 and True are equal, and mean different programs."""
    kinds = tuple(map(type, value)) if isinstance(value, tuple) else ()
    return (type(value), value, kinds)


def classified(value: Any) -> object:
    """What the trace depends on."""
    if type(value) in NUMBERS:
        return type(value)
    if not is_array(value):
        return _static(value)
    info = arrays.describe(value)
    ones = tuple(extent == 1 for extent in info.shape)
    return (ones, memory_format_of(info.shape, info.strides), kind_of(value))


def kind_of(value: Any) -> object:
    """What the trace depends on, sizes and layouts left out."""
    if not is_array(value):
        return classified(value)
    info = arrays.describe(value)
    return (info.dtype, len(info.shape), info.pointer & 15 == 0, info.device_kind)


def usable(name: str, value: Any) -> Any:
    """An argument with foreign arrays viewed as known ones; refuses what cannot be in a key."""
    try:
        value = adopted(value)
        if is_array(value):
            arrays.describe(value)
            return value
    except ArgumentError as error:
        raise ArgumentError(
            f"argument `{name}`: {error.message}", code=error.code, remedy=error.remedy
        ) from None
    try:
        hash(value)
    except TypeError:
        raise ArgumentError(
            f"argument `{name}` has type {type(value).__name__}, which is neither a tensor, a "
            "number, nor hashable",
            code="WS0314",
            remedy="pass tensors one by one, and lists of numbers as tuples",
        ) from None
    return value


def adopted(value: object) -> object:
    """An argument as the engine takes it: arrays of other libraries are viewed, not copied."""
    if isinstance(value, np.generic):
        return value.item()
    return arrays.adopt(value) if hasattr(value, "__dlpack_device__") else value


def of_their_library(results: Sequence[Any], given: Sequence[object]) -> Sequence[Any]:
    """Results of a call; where all arrays that it got are of other libraries, as the first one."""
    foreign = [value for value in given if is_array(value)]
    if not foreign or not all(map(arrays.is_foreign, foreign)):
        return results
    return [arrays.returned(result, foreign[0]) for result in results]


def is_array(value: object) -> bool:
    """Whether it is a tensor of some library, and no number of one element."""
    return hasattr(value, "__dlpack_device__") and not isinstance(value, np.generic)


def check_device(inputs: Sequence[object], device: object) -> None:
    """Refuse arrays that are elsewhere than on the device that was asked for."""
    wanted = str(device) if not isinstance(device, int) else f"cuda:{device}"
    if wanted == "cuda":  # PyTorch's word for its current device
        torch = sys.modules.get("torch")
        current = torch.cuda.current_device() if torch and torch.cuda.is_available() else 0
        wanted = f"cuda:{current}"
    for position, value in enumerate(inputs):
        if is_array(value):
            info = arrays.describe(value)
            place = "cpu" if info.device_kind == "cpu" else f"cuda:{info.ordinal}"
            if place != wanted:
                raise ArgumentError(
                    f"argument {position} is on {place}, and execute got device {wanted}",
                    code="WS0304",
                    remedy="move the tensor, or leave `device` out",
                )
