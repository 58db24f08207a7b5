"""Comparisons of values that a fusion has in more digits than torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warpsmith import ops
from warpsmith.ir.tensor import TensorView
from warpsmith.torch_backend.meanings import At, Meaning


def compared(function: Callable[..., Any]) -> Meaning:
    """What asks how values of 16 bits stand to others sees them as torch has them, rounded: what is
    equal there, or infinite, is here, and an extreme is one of its elements.

    On which side of 0 they are, rounding tells as well, but for what is too small for Half.
    """
    ordered = function not in (ops.eq, ops.ne)

    def rounded(value: Any) -> Any:
        narrow = isinstance(value, TensorView) and value.dtype.is_narrow
        return ops.cast(value, value.dtype) if narrow else value

    def meaning(at: At, *args: Any) -> Any:
        by_sign = ordered and any(isinstance(arg, int | float) and arg == 0 for arg in args)
        return function(*args) if by_sign else function(*map(rounded, args))

    return meaning
