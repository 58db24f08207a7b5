"""Tensors of numbers that look random, by a generator that counts: Philox4x32-10.

An element's number depends on the seed, the offset and the element's position alone (its place in
the shape, row by row), and not on the schedule: recomputed anywhere, it is the same. Two draws
that are to differ take different seeds or offsets; an offset serves one tensor of any size.

Seed and offset are ints, integer scalars of the fusion, or integer tensors that broadcast to the
shape, such as one of a single element that another kernel wrote.
"""

from __future__ import annotations

import math

from warpsmith.errors import DefinitionError
from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import TensorView, Value
from warpsmith.ops.elementwise import apply
from warpsmith.ops.factories import full, iota
from warpsmith.ops.promotion import cast
from warpsmith.ops.reshape import reshape
from warpsmith.ops.shape import Extents, as_extent
from warpsmith.ops.table.random import BITS
from warpsmith.ops.values import Operand, Scalar, as_tensor

_HELD = {DataType.Half: 11, DataType.BFloat16: 8}
"""Bits of a number in [0, 1) that 16-bit floats hold, so that none is rounded to 1."""


def uniform(
    minval: Operand,
    maxval: Operand,
    shape: Extents,
    *,
    rng_seed: Operand,
    rng_offset: Operand,
    dtype: DataType = DataType.Float,
    fusion: Fusion,
) -> TensorView:
    """`minval + u * (maxval - minval)`, u a number in [0, 1) for each element.

    u has 24 bits, or as many as its type holds: 11 for Half and 8 for BFloat16; Double has 48, of
    the numbers 2 i and 2 i + 1 for element i. The sum may round to `maxval`.
    """
    if not dtype.is_float:
        raise _refused_type("uniform", dtype)
    index = _positions(shape, fusion)
    if dtype is DataType.Double:
        twice = apply("mul", index, 2)
        drawn = [apply("philox", apply("add", twice, k), rng_seed, rng_offset) for k in (0, 1)]
        high, low = (cast(value, dtype) for value in drawn)
        number = apply("add", high, apply("mul", low, 2.0**-BITS))
    else:
        number = apply("philox", index, rng_seed, rng_offset)
        if dtype in _HELD:
            scale = 2.0 ** _HELD[dtype]
            number = apply("mul", apply("floor", apply("mul", number, scale)), 1 / scale)
    if (minval, maxval) != (0, 1):
        number = apply("add", minval, apply("mul", number, apply("sub", maxval, minval)))
    return as_tensor(cast(number, dtype), "uniform")


def normal(
    mean: Operand,
    std: Operand,
    shape: Extents,
    *,
    rng_seed: Operand,
    rng_offset: Operand,
    dtype: DataType = DataType.Float,
    fusion: Fusion,
) -> TensorView:
    """`mean + z * std`, z a normal number for each element, computed in Float.

    Box and Muller: elements 2 k and 2 k + 1 are the cosine and the sine of one angle, times one
    radius, of which 24 bits are drawn each.
    """
    if not dtype.is_float:
        raise _refused_type("normal", dtype)
    index = _positions(shape, fusion)
    even, odd = apply("bitwise_and", index, -2), apply("bitwise_or", index, 1)
    first, second = (apply("philox", place, rng_seed, rng_offset) for place in (even, odd))
    radius = apply("sqrt", apply("mul", apply("log", apply("sub", 1.0, first)), -2.0))
    angle = apply("mul", second, 2 * math.pi)
    is_even = apply("eq", index, even)
    turn = apply("where", is_even, apply("cos", angle), apply("sin", angle))
    number = apply("mul", radius, turn)
    if (mean, std) != (0, 1):
        number = apply("add", mean, apply("mul", number, std))
    return as_tensor(cast(number, dtype), "normal")


def dropout(
    x: TensorView, p: Scalar, *, rng_seed: Operand, rng_offset: Operand
) -> tuple[Value, Value]:
    """`x / (1 - p)` where an element's number is at least p, else 0; and where it is kept.

    The numbers are those of `kept`, of which eight neighbours share a block. What is dropped is 0
    whatever it was. The gradient of x is `dropout` of the incoming one with the same seed and
    offset, so that no mask has to be stored.

    Args:
        p: share of the elements that are dropped, from 0 to 1; of a scalar, a call says.
    """
    tensor = as_tensor(x, "dropout")
    if not _is_share(p):
        raise DefinitionError(
            f"dropout got p {p!r}", code="WS0159", remedy="give a number from 0 to 1"
        )
    if not tensor.dtype.is_float:
        raise _refused_type("dropout", tensor.dtype)
    index = _positions([axis.extent for axis in tensor.shape_axes], Fusion.of(tensor))
    scale: Operand
    if isinstance(p, Expr):
        scale = apply("reciprocal", apply("sub", 1.0, p))
    else:
        p = float(p)
        scale = 1 / (1 - p) if p < 1 else 0.0
    kept = apply("kept", index, _least(p), rng_seed, rng_offset)
    return apply("where", kept, apply("mul", tensor, scale), 0.0), kept


def _is_share(p: object) -> bool:
    """Whether p is a number from 0 to 1, or a scalar that may be one."""
    if isinstance(p, Expr):
        return p.dtype.is_float
    return isinstance(p, int | float) and not isinstance(p, bool) and 0 <= p <= 1


def _least(p: Scalar) -> Operand:
    """How many of the 2^BITS numbers that a draw may be are less than a share of all."""
    if not isinstance(p, Expr):
        return math.ceil(float(p) * 2.0**BITS)
    return cast(apply("ceil", apply("mul", p, 2.0**BITS)), DataType.Int)


def _positions(shape: Extents, fusion: Fusion) -> TensorView:
    """The place of each element, row by row, in Int."""
    extents = [as_extent(extent, "uniform") for extent in shape]
    if all(extent == integers.ONE for extent in extents):
        return full(extents, 0, DataType.Int, fusion=fusion)
    length: Expr = integers.ONE
    for extent in extents:
        length = integers.mul(length, extent)
    return reshape(iota(length, fusion=fusion), extents)


def _refused_type(who: str, dtype: DataType) -> DefinitionError:
    return DefinitionError(
        f"{who} got dtype {dtype.name}",
        code="WS0118",
        remedy="use Float, Double, Half or BFloat16",
    )
