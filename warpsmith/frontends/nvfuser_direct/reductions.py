"""Operations of nvFuser that reduce dimensions, or scan them."""

from __future__ import annotations

from typing import Any

from warpsmith import ops as own
from warpsmith.frontends.nvfuser_direct.arguments import number, type_of
from warpsmith.frontends.nvfuser_direct.enums import DataType
from warpsmith.frontends.nvfuser_direct.operation import Function, operation
from warpsmith.ir.dtypes import DataType as Type

__all__ = [
    "cummax",
    "cummin",
    "max",
    "min",
    "prod",
    "sum",
    "var",
    "var_mean",
]


def _reduction(meaning: Function, doc: str) -> Function:
    """An operation with nvFuser's arguments of a sum, by the name of ours."""

    def reduced(
        arg: Any,
        dims: Any = None,
        keepdim: bool = False,
        dtype: Any = DataType.Null,
        *,
        dim: Any = None,
    ) -> Any:
        return meaning(arg, *_reduced(dims, dim, keepdim, dtype))

    reduced.__name__ = reduced.__qualname__ = meaning.__name__
    reduced.__doc__ = doc
    return operation(reduced)


def _reduced(dims: Any, dim: Any, keepdim: bool, dtype: Any) -> tuple[Any, bool, Any]:
    """Dimensions, `keepdim` and type: the type may stand where the dimensions do."""
    if isinstance(dims, Type | DataType):
        return None, keepdim, type_of(dims)
    return (dim if dims is None else dims), keepdim, type_of(dtype)


sum = _reduction(own.sum, "Sum over `dims`, all by default.")
prod = _reduction(own.prod, "Product over `dims`, all by default.")
max = _reduction(own.max, "Largest element over `dims`, all by default.")
min = _reduction(own.min, "Smallest element over `dims`, all by default.")


@operation
def var(arg: Any, dims: Any, correction: float = 1, keepdim: bool = False) -> Any:
    """Variance over `dims`."""
    return own.var(arg, dims, number(correction), keepdim)


@operation
def var_mean(arg: Any, dims: Any, correction: float = 1, keepdim: bool = False) -> Any:
    """(Variance, mean) over `dims`."""
    return own.var_mean(arg, dims, number(correction), keepdim)


@operation
def cummax(arg: Any, dim: int) -> Any:
    """Largest of a dimension's elements up to each."""
    return own.cummax(arg, dim)[0]


@operation
def cummin(arg: Any, dim: int) -> Any:
    """Smallest of a dimension's elements up to each."""
    return own.cummin(arg, dim)[0]
