"""NumPy meaning of scalar expressions of any type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from warpsmith.errors import InternalError
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.scalar import evaluate as evaluate_index
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.table import TABLE


def numpy_dtype(dtype: DataType, *, precise: bool = False) -> np.dtype[Any]:
    """What NumPy calls a type; with `precise` all floats are float64."""
    if precise and dtype.is_float:
        return np.dtype(np.float64)
    return _NUMPY[dtype]


_NUMPY: Mapping[DataType, np.dtype[Any]] = {
    DataType.Double: np.dtype(np.float64),
    DataType.Float: np.dtype(np.float32),
    DataType.Half: np.dtype(np.float16),
    DataType.BFloat16: np.dtype(ml_dtypes.bfloat16),
    DataType.Float8_e4m3fn: np.dtype(ml_dtypes.float8_e4m3fn),
    DataType.Float8_e5m2: np.dtype(ml_dtypes.float8_e5m2),
    DataType.Int: np.dtype(np.int64),
    DataType.Index: np.dtype(np.int64),
    DataType.Int32: np.dtype(np.int32),
    DataType.Int16: np.dtype(np.int16),
    DataType.Int8: np.dtype(np.int8),
    DataType.UInt8: np.dtype(np.uint8),
    DataType.Bool: np.dtype(np.bool_),
}


_LARGEST = 448.0  # of Float8_e4m3fn


def in_type(array: np.ndarray, dtype: DataType, *, precise: bool = False) -> np.ndarray:
    """Elements converted to a type as PyTorch does; to 8-bit floats by way of float, of floats to
    small integers by way of Int32.

    With `precise` floats become float64, and are not rounded, but one that Float8_e4m3fn would
    take for its largest number is that then, too.
    """
    wanted = numpy_dtype(dtype, precise=precise)
    if dtype.is_float8 and array.dtype != _NUMPY[dtype]:
        array = array.astype(np.float64 if precise else np.float32, copy=False)
        if dtype is DataType.Float8_e4m3fn:
            array = np.clip(array, -_LARGEST, _LARGEST)
    if dtype.is_small_int and array.dtype.kind not in "iub":
        array = array.astype(np.int32)
    return array.astype(wanted, copy=False)


def symbols_of_call(passed: Iterable[tuple[TensorView | Symbol, Any]]) -> dict[str, Any]:
    """What a call says of symbols by name: scalars, and sizes of tensors, which may misfit yet.

    Args:
        passed: inputs as they are declared, each with what the call gives for it.
    """
    values: dict[str, Any] = {}
    for declared, given in passed:
        if isinstance(declared, Symbol):
            values[declared.name] = given
            continue
        for axis, size in zip(declared.shape_axes, given.shape, strict=False):
            if isinstance(axis.extent, Symbol):
                values[axis.extent.name] = size
    return values


class ScalarEvaluator:
    """Values of expressions as 0-dimensional arrays.

    Args:
        values: every symbol's value by name, a number or an array.
        precise: compute floats in float64.
    """

    def __init__(self, values: Mapping[str, float | np.ndarray], *, precise: bool = False) -> None:
        self._values = values
        self._precise = precise

    def __call__(self, expr: Expr) -> np.ndarray:
        with np.errstate(all="ignore"):
            found = np.asarray(self._compute(expr))
            return in_type(found, expr.dtype, precise=self._precise)

    def integer(self, expr: Expr) -> int:
        """The value of an integer expression."""
        if isinstance(expr, Const):
            return int(expr.value)
        return int(self(expr))

    def _compute(self, expr: Expr) -> np.ndarray | float:
        if isinstance(expr, Const):
            return expr.value
        if isinstance(expr, Symbol):
            return self._values[expr.name]
        if not isinstance(expr, Apply):
            raise InternalError(f"{expr!r} is not a scalar expression")
        if expr.op == "cast":
            return self(expr.args[0])
        if expr.dtype is DataType.Index:
            operands = {f"x{k}": self.integer(arg) for k, arg in enumerate(expr.args)}
            args = tuple(Symbol(name) for name in operands)
            return evaluate_index(Apply(expr.op, args, expr.dtype), operands)
        return TABLE[expr.op].numpy(*map(self, expr.args))


def known(expr: Expr) -> Expr:
    """The constant that an expression without symbols is; any other expression as it is."""
    if isinstance(expr, Const) or not isinstance(expr, Apply):
        return expr
    if any(not isinstance(node, Apply | Const) for node in expr.walk()):
        return expr
    return Const(ScalarEvaluator({})(expr).item(), expr.dtype)
