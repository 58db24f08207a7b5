"""Operations of nvFuser that reduce dimensions, or scan them."""

from __future__ import annotations

from typing import Any

from warpsmith import ops as own
from warpsmith.frontends.nvfuser_direct.arguments import number, type_of
from warpsmith.frontends.nvfuser_direct.enums import DataType
from warpsmith.frontends.nvfuser_direct.operation import operation
from warpsmith.ir.dtypes import DataType as Type

__all__ = [
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "max",
    "min",
    "prod",
    "sum",
    "var",
    "var_mean",
    "welford",
]


@operation
def sum(
    arg: Any,
    dims: Any = None,
    keepdim: bool = False,
    dtype: Any = DataType.Null,
    *,
    dim: Any = None,
) -> Any:
    """Sum over `dims`, all by default."""
    return own.sum(arg, *_reduced(dims, dim, keepdim, dtype))


@operation
def prod(
    arg: Any,
    dims: Any = None,
    keepdim: bool = False,
    dtype: Any = DataType.Null,
    *,
    dim: Any = None,
) -> Any:
    """Product over `dims`, all by default."""
    return own.prod(arg, *_reduced(dims, dim, keepdim, dtype))


@operation
def max(
    arg: Any,
    dims: Any = None,
    keepdim: bool = False,
    dtype: Any = DataType.Null,
    *,
    dim: Any = None,
) -> Any:
    """Largest element over `dims`, all by default."""
    return own.max(arg, *_reduced(dims, dim, keepdim, dtype))


@operation
def min(
    arg: Any,
    dims: Any = None,
    keepdim: bool = False,
    dtype: Any = DataType.Null,
    *,
    dim: Any = None,
) -> Any:
    """Smallest element over `dims`, all by default."""
    return own.min(arg, *_reduced(dims, dim, keepdim, dtype))


def _reduced(dims: Any, dim: Any, keepdim: bool, dtype: Any) -> tuple[Any, bool, Any]:
    """Dimensions, `keepdim` and type: the type may stand where the dimensions do."""
    if isinstance(dims, Type | DataType):
        return None, keepdim, type_of(dims)
    return (dim if dims is None else dims), keepdim, type_of(dtype)


@operation
def var(arg: Any, dims: Any, correction: float = 1, keepdim: bool = False) -> Any:
    """Variance over `dims`."""
    return own.var(arg, dims, number(correction), keepdim)


@operation
def var_mean(arg: Any, dims: Any, correction: float = 1, keepdim: bool = False) -> Any:
    """(Variance, mean) over `dims`."""
    return own.var_mean(arg, dims, number(correction), keepdim)


@operation
def welford(arg: Any, dims: Any) -> Any:
    """(Mean, sum of squared deviations, count) over `dims`."""
    return own.welford(arg, dims)


@operation
def cumsum(arg: Any, dim: int) -> Any:
    """Sums of a dimension's elements up to each."""
    return own.cumsum(arg, dim)


@operation
def cumprod(arg: Any, dim: int) -> Any:
    """Products of a dimension's elements up to each."""
    return own.cumprod(arg, dim)


@operation
def cummax(arg: Any, dim: int) -> Any:
    """Largest of a dimension's elements up to each."""
    return own.cummax(arg, dim)[0]


@operation
def cummin(arg: Any, dim: int) -> Any:
    """Smallest of a dimension's elements up to each."""
    return own.cummin(arg, dim)[0]
