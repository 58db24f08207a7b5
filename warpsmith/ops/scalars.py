"""NumPy meaning of scalar expressions of any type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from warpsmith.errors import InternalError
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.scalar import evaluate as evaluate_index
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
    DataType.Int: np.dtype(np.int64),
    DataType.Index: np.dtype(np.int64),
    DataType.Int32: np.dtype(np.int32),
    DataType.Bool: np.dtype(np.bool_),
}


class ScalarEvaluator:
    """Values of expressions as 0-dimensional arrays.

    Args:
        values: every symbol's value by name.
        precise: compute floats in float64.
    """

    def __init__(self, values: Mapping[str, float], *, precise: bool = False) -> None:
        self._values = values
        self._precise = precise

    def __call__(self, expr: Expr) -> np.ndarray:
        dtype = numpy_dtype(expr.dtype, precise=self._precise)
        with np.errstate(all="ignore"):
            return np.asarray(self._compute(expr)).astype(dtype)

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
