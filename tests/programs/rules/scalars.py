"""Rules of tensors made of scalars, random ones among them."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.programs import bounds
from tests.programs.bounds import Bounded
from tests.programs.program import Extent, Program, Shape
from tests.programs.rules.pointwise import pointwise
from tests.programs.values import Value, as_tensor, number_of, operand, require, scalar_type
from warpsmith.ir.dtypes import DataType
from warpsmith.ops.table import TABLE


def full(program: Program, shape: Shape, value: Any, dtype: DataType | None = None) -> Value:
    kind = {0: DataType.Bool, 1: DataType.Int, 2: DataType.Float}[scalar_type(value).category]
    wanted = dtype or kind
    extents = program.shape(shape.dims)
    found = operand(value, wanted)
    return Value(wanted, shape.dims, found.moved(lambda v: np.broadcast_to(v, extents)))


def full_like(program: Program, x: Any, value: Any, dtype: DataType | None = None) -> Value:
    return full(program, Shape(as_tensor(x).dims), value, dtype or as_tensor(x).dtype)


def filled(number: int) -> Callable[..., Value]:
    """`zeros_like` and `ones_like`."""
    return lambda program, x: full_like(program, x, number)


def iota(
    program: Program, length: Extent, start: Any = 0, step: Any = 1, dtype: DataType = DataType.Int
) -> Value:
    places = np.arange(program.extent(length.dim))
    first, increment = operand(start, dtype), operand(step, dtype)
    with np.errstate(all="ignore"):
        value = first.value + increment.value * places
    if not dtype.is_float:
        value = value.astype(first.value.dtype)
    slack = np.abs(first.value) + np.abs(increment.value * places)
    error = 4 * bounds.UNIT[dtype] * slack if dtype.is_float else np.zeros(value.shape)
    return Value(dtype, (length.dim,), Bounded(dtype, value, error))


def _drawn(extents: Sequence[int], seed: Any, offset: Any, shift: int = 0) -> Bounded:
    places = np.arange(math.prod(extents)).reshape(tuple(extents)) + shift
    numbers = TABLE["philox"].numpy(
        places, np.asarray(number_of(seed)), np.asarray(number_of(offset))
    )
    return bounds.exact(DataType.Float, numbers.reshape(tuple(extents)))


def uniform(
    program: Program,
    low: Any,
    high: Any,
    shape: Shape,
    *,
    rng_seed: Any,
    rng_offset: Any,
    dtype: DataType,
) -> Value:
    require(dtype is DataType.Float, "other types are drawn otherwise")
    extents = program.shape(shape.dims)
    drawn = Value(DataType.Float, shape.dims, _drawn(extents, rng_seed, rng_offset))
    if (low, high) == (0, 1):
        return drawn
    scaled = pointwise(program, "mul", drawn, number_of(high) - number_of(low))
    return pointwise(program, "add", low, scaled)


def normal(
    program: Program,
    mean: Any,
    std: Any,
    shape: Shape,
    *,
    rng_seed: Any,
    rng_offset: Any,
    dtype: DataType,
) -> Value:
    require(dtype is DataType.Float, "other types are drawn otherwise")
    extents = program.shape(shape.dims)
    places = np.arange(math.prod(extents)).reshape(extents)
    philox, seed = TABLE["philox"].numpy, np.asarray(number_of(rng_seed))
    first, second = (
        philox(p, seed, np.asarray(number_of(rng_offset))).astype(float)
        for p in (places & -2, places | 1)
    )
    with np.errstate(all="ignore"):
        radius, angle = np.sqrt(-2 * np.log1p(-first)), 2 * math.pi * second
        number = radius * np.where(places % 2 == 0, np.cos(angle), np.sin(angle))
    error = 64 * bounds.UNIT[DataType.Float] * (1 + radius)
    drawn = Value(DataType.Float, shape.dims, bounds.settled(DataType.Float, number, error))
    return pointwise(program, "add", mean, pointwise(program, "mul", drawn, std))


def dropout(
    program: Program, x: Any, p: float, *, rng_seed: Any, rng_offset: Any
) -> tuple[Value, Value]:
    tensor = as_tensor(x)
    require(tensor.dtype.is_float, "type")
    extents = program.shape(tensor.dims)
    places, least = np.arange(math.prod(extents)), np.asarray(math.ceil(p * 2**24))
    seed, offset = (np.asarray(number_of(number)) for number in (rng_seed, rng_offset))
    found = TABLE["kept"].numpy(places, least, seed, offset).reshape(tuple(extents))
    kept = Value(DataType.Bool, tensor.dims, bounds.exact(DataType.Bool, found))
    scaled = pointwise(program, "mul", tensor, 1 / (1 - p))
    return pointwise(program, "where", kept, scaled, 0.0), kept
