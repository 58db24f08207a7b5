"""Comparisons of values that a fusion has in more digits than torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from warpsmith import ops
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.tensor import TensorView
from warpsmith.runtime.arrays import torch_dtypes
from warpsmith.torch_backend.meanings import At, Meaning


def compared(function: Callable[..., Any]) -> Meaning:
    """What asks how values of 16 bits stand to others sees them as torch has them, rounded: what is
    equal there, or infinite, is here, and an extreme is one of its elements. Numbers, and tensors
    of one without dimensions, are rounded as what they meet is. So are operands of remainders.

    On which side of 0 they are, rounding tells as well, but for what is too small for Half.
    """
    ordered = function not in (ops.eq, ops.ne)

    def meaning(at: At, *args: Any) -> Any:
        if ordered and any(isinstance(arg, int | float) and arg == 0 for arg in args):
            return function(*args)
        kind = _narrow(args)
        return function(*(_rounded(arg, kind) for arg in args))

    return meaning


def _narrow(args: tuple[Any, ...]) -> DataType | None:
    """The type of 16 bits in which torch compares, if it is such: tensors without dimensions have
    no say in it where others are floats.
    """
    tensors = [arg for arg in args if isinstance(arg, TensorView) and arg.dtype.is_float]
    kinds = {tensor.dtype for tensor in [t for t in tensors if t.rank] or tensors}
    return next(iter(kinds)) if len(kinds) == 1 and all(k.is_narrow for k in kinds) else None


def _rounded(value: Any, kind: DataType | None) -> Any:
    if isinstance(value, TensorView):
        kind = kind or (value.dtype if value.dtype.is_narrow else None)
        return value if kind is None else ops.cast(value, kind)
    if kind is None or not isinstance(value, int | float):
        return value
    return float(torch.tensor(value, dtype=torch_dtypes()[kind.value]))
