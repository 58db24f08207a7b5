"""Sums and quotients in the types in which torch computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warpsmith import ops
from warpsmith.ir.tensor import TensorView
from warpsmith.torch_backend.meanings import At, Meaning


def scaled(function: Callable[..., Any]) -> Meaning:
    def meaning(at: At, a: Any, b: Any, *, alpha: Any = 1) -> Any:
        return function(a, b if alpha == 1 else ops.mul(_common(at, b), alpha))

    return meaning


def _common(at: At, value: Any) -> Any:
    """An operand in the type of the result, in which torch multiplies it."""
    differs = isinstance(value, TensorView) and value.dtype is not at.dtype
    return ops.cast(value, at.dtype) if differs else value


def reverse_sub(at: At, a: Any, b: Any, alpha: Any = 1) -> Any:
    return ops.sub(b, a if alpha == 1 else ops.mul(_common(at, a), alpha))


def divided(at: At, a: Any, b: Any, *, rounding_mode: str | None = None) -> Any:
    if rounding_mode is None:
        return ops.truediv(a, b)
    if rounding_mode == "floor":
        return ops.floor_divide(a, b)
    quotient = ops.div(a, b)
    rounds = at.dtype.is_narrow and isinstance(b, TensorView) and b.rank > 0  # as torch does
    return ops.trunc(ops.cast(quotient, at.dtype) if rounds else quotient)


def product_added(join: Callable[..., Any]) -> Meaning:
    def meaning(at: At, x: Any, a: Any, b: Any, *, value: Any = 1) -> Any:
        found = join(_common(at, a), _common(at, b))
        return ops.add(x, found if value == 1 else ops.mul(found, value))

    return meaning
