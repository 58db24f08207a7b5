"""Operations of nvFuser that make tensors from scalars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpsmith import ops as own
from warpsmith.frontends.nvfuser_direct import checks
from warpsmith.frontends.nvfuser_direct.arguments import type_of
from warpsmith.frontends.nvfuser_direct.enums import DataType
from warpsmith.frontends.nvfuser_direct.failures import FusionError
from warpsmith.frontends.nvfuser_direct.fusion import Fusion
from warpsmith.frontends.nvfuser_direct.operation import operation
from warpsmith.ir.dtypes import DataType as Type

__all__ = [
    "full",
    "iota",
    "normal",
    "rand_like",
    "randn_like",
    "uniform",
]


@operation
def rand_like(x: Any, *, fusion: Fusion) -> Any:
    """Numbers from 0 to 1 in the shape and type of `x`."""
    return _random("uniform", 0.0, 1.0, own.shape(x), None, None, x.dtype, fusion)


@operation
def randn_like(x: Any, *, fusion: Fusion) -> Any:
    """Normal numbers in the shape and type of `x`."""
    return _random("normal", 0.0, 1.0, own.shape(x), None, None, x.dtype, fusion)


@operation
def uniform(
    minval: Any,
    maxval: Any,
    shape: Sequence[Any],
    *,
    rng_seed: Any = None,
    rng_offset: Any = None,
    dtype: Any = DataType.Float,
    fusion: Fusion,
) -> Any:
    """Numbers from `minval` to `maxval`; without a seed, other ones in each call."""
    return _random("uniform", minval, maxval, shape, rng_seed, rng_offset, dtype, fusion)


@operation
def normal(
    mean: Any,
    std: Any,
    shape: Sequence[Any],
    *,
    rng_seed: Any = None,
    rng_offset: Any = None,
    dtype: Any = DataType.Float,
    fusion: Fusion,
) -> Any:
    """Normal numbers; without a seed, other ones in each call."""
    return _random("normal", mean, std, shape, rng_seed, rng_offset, dtype, fusion)


def _random(
    name: str,
    low: Any,
    high: Any,
    shape: Sequence[Any],
    seed: Any,
    offset: Any,
    dtype: Any,
    fusion: Fusion,
) -> Any:
    if (seed is None) is not (offset is None):
        raise FusionError(
            f"{name} got a {'seed' if offset is None else 'offset'} alone",
            code="WS0192",
            remedy="give both rng_seed and rng_offset, or neither",
        )
    if seed is None:
        seed, offset = fusion.hidden.drawn()
    return getattr(own, name)(
        low,
        high,
        list(map(fusion.hidden.extent, shape)),
        rng_seed=seed,
        rng_offset=offset,
        dtype=type_of(dtype) or Type.Float,
        fusion=fusion.ours,
    )


@operation
def full(shape: Sequence[Any], fill_value: Any, dtype: Any, *, fusion: Fusion) -> Any:
    """A tensor of one value."""
    return own.full(
        list(map(fusion.hidden.extent, shape)), fill_value, type_of(dtype), fusion=fusion.ours
    )


@operation
def iota(
    length: Any, start: Any = None, step: Any = None, dtype: Any = DataType.Int, *, fusion: Fusion
) -> Any:
    """`start + step * i` for `i` below `length`."""
    first, more = (0 if start is None else start), (1 if step is None else step)
    checks.steps(first, more)
    return own.iota(
        fusion.hidden.extent(length), first, more, type_of(dtype) or Type.Int, fusion=fusion.ours
    )
