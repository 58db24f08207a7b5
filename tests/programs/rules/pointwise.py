"""Rules of what computes element by element."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.programs import bounds, samples
from tests.programs.bounds import Bounded
from tests.programs.program import Dim, Program
from tests.programs.values import Value, as_tensor, common_type, operand, require
from warpsmith.ir.dtypes import DataType
from warpsmith.ops.table import TABLE

_EXACT = (
    "abs",
    "neg",
    "relu",
    "sign",
    "floor",
    "ceil",
    "round",
    "trunc",
    "where",
    "clamp",
    "maximum",
    "minimum",
    "threshold",
    "fmod",
    "cast",
    "set",
)
_CORRECT = (
    "add",
    "sub",
    "mul",
    "div",
    "truediv",
    "sqrt",
    "reciprocal",
    "frac",
    "remainder",
    "floor_divide",
    "nextafter",
)


def _ulps(name: str) -> float:
    """Halves of units in the last place that a function may be off."""
    if name in ("div", "truediv"):
        return 8.0  # where only 16-bit copies are made of the quotient
    return 0.0 if name in _EXACT else 2.0 if name in _CORRECT else 32.0


def _aligned(values: Sequence[Any]) -> tuple[tuple[Dim, ...], list[int]]:
    """Dimensions of an element-by-element result, and each tensor's missing leading ones."""
    tensors = [v for v in values if isinstance(v, Value)]
    require(bool(tensors), "no tensor")
    rank = max(len(t.dims) for t in tensors)
    dims: list[Dim] = [()] * rank
    for t in tensors:
        for d, dim in enumerate(t.dims, rank - len(t.dims)):
            require(not dim or not dims[d] or dim == dims[d], "extents differ")
            dims[d] = dims[d] or dim
    return tuple(dims), [rank - len(v.dims) if isinstance(v, Value) else 0 for v in values]


def pointwise(program: Program, name: str, *values: Any) -> Value:
    require(name in TABLE, f"there is no {name}")
    op = TABLE[name]
    require(len(values) == op.arity, "operands")
    dims, _ = _aligned(values)
    common = common_type(values[op.conditions :], True)
    require(op.supports(common), "type")
    compute, result = op.compute_dtype(common), op.result_dtype(common)
    types = [DataType.Bool] * op.conditions + [compute] * (len(values) - op.conditions)
    operands = [operand(v, dtype) for v, dtype in zip(values, types, strict=True)]
    if name == "logical_right_shift" and common.is_small_int:  # its own bits, not those of Int32
        bits = operands[0]
        operands[0] = replace(bits, value=bits.value & ((1 << common.bits) - 1))
    shape = program.shape(dims)
    found = computed(name, compute, result, operands)
    return Value(result, dims, found.moved(lambda x: np.broadcast_to(x, shape)))


def computed(
    name: str, compute: DataType, result: DataType, operands: Sequence[Bounded]
) -> Bounded:
    function = TABLE[name].numpy
    if name == "where":
        return _chosen(*operands)
    if name in ("eq", "ne") and compute.is_float:
        with np.errstate(all="ignore"):
            apart = np.abs(operands[0].value - operands[1].value)
        near = apart <= sum(x.error for x in operands)
        doubtful = near & (operands[0].error + operands[1].error > 0)
        value = function(*(x.value for x in operands))
        return Bounded(DataType.Bool, value, np.where(doubtful, np.inf, 0.0))
    if result is DataType.Bool:
        return samples.decided(function, operands)
    if compute.is_float:
        extra = _cancelled(name, operands) * bounds.UNIT[compute]
        if (
            name == "silu"
        ):  # x / (1 + exp(-x)): the exponential is beyond the type before x times it
            extra = extra + 256 * bounds.SMALLEST[compute]
        return samples.sampled(function, compute, operands, ulps=_ulps(name), extra=extra)
    return _exact_integers(name, result, operands)


def _chosen(condition: Bounded, a: Bounded, b: Bounded) -> Bounded:
    error = np.where(condition.value, a.error, b.error)
    error = np.where(condition.unknown, np.inf, error)
    return Bounded(a.dtype, np.where(condition.value, a.value, b.value), error)


def _cancelled(name: str, operands: Sequence[Bounded]) -> np.ndarray | float:
    """Size of the terms whose roundings a result may be left with, where they cancel."""
    x = [np.where(np.isfinite(o.value), np.abs(o.value), 0.0) for o in operands]
    if name == "addcmul":
        return np.asarray(4 * (x[0] + x[1] * x[2] * x[3]))
    if name == "lerp":
        return np.asarray(8 * (x[0] + x[1]) * (1 + x[2]))
    if name in ("remainder", "fmod"):
        with np.errstate(all="ignore"):  # where errors move it by a turn, samples do not tell
            moved = operands[0].error + x[0] / x[1] * operands[1].error
        return np.where((x[1] > 0) & (4 * moved > x[1]), np.inf, 4 * x[1])
    if name == "lgamma":
        return 64.0
    if name == "exp":  # of what is rounded to 16 bits later, in two instructions
        with np.errstate(all="ignore"):
            return np.asarray(4 * x[0] * np.exp(np.minimum(operands[0].value, 80.0)))
    return 0.0


def _exact_integers(name: str, result: DataType, operands: Sequence[Bounded]) -> Bounded:
    arrays = [x.value for x in operands]
    with np.errstate(all="ignore"):
        value = TABLE[name].numpy(*arrays)
        unknown = sum(x.error for x in operands)
        if name in ("div", "fmod", "mod", "remainder"):
            unknown = np.where((arrays[1] == 0) | (arrays[1] == -1), np.inf, unknown)
        if name == "gcd":
            lowest = np.iinfo(arrays[0].dtype).min
            unknown = np.where((arrays[0] == lowest) | (arrays[1] == lowest), np.inf, unknown)
    if result.is_float:
        return bounds.exact(result, value)
    return Bounded(result, value, np.broadcast_to(unknown, value.shape))


def floor_divide(program: Program, a: Any, b: Any) -> Value:
    common = common_type((a, b), True)
    require(TABLE["remainder"].supports(common), "type")
    dims, _ = _aligned((a, b))
    operands = [operand(v, common.compute) for v in (a, b)]
    if common.is_float:
        found = samples.sampled(np.floor_divide, common.compute, operands, ulps=2)
        zero = np.broadcast_to(operands[1].value == 0, found.value.shape)
        found = Bounded(found.dtype, found.value, np.where(zero, np.inf, found.error))
    else:
        with np.errstate(all="ignore"):
            value = np.floor_divide(operands[0].value, operands[1].value)
        bad = (operands[1].value == 0) | (operands[1].value == -1)
        error = np.where(bad, np.inf, operands[0].error + operands[1].error)
        found = Bounded(common, value, error)
    shape = program.shape(dims)
    return Value(common, dims, found.moved(lambda x: np.broadcast_to(x, shape)))


def clamp(program: Program, x: Any, low: Any = None, high: Any = None) -> Value:
    if high is None:
        return pointwise(program, "maximum", x, low)
    if low is None:
        return pointwise(program, "minimum", x, high)
    return pointwise(program, "clamp", x, low, high)


def addcmul(program: Program, x: Any, a: Any, b: Any, value: Any = 1) -> Value:
    return pointwise(program, "addcmul", x, a, b, value)


def cast(program: Program, x: Any, dtype: DataType) -> Value:
    tensor = as_tensor(x)
    found = bounds.converted(tensor.wide, dtype)
    return Value(dtype, tensor.dims, found)
