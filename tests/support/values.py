"""Scalar expressions on all threads at once, with the types' own rounding."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tests.support.memory import ALWAYS, NUMPY_TYPES, Cell, Fault, sure
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.kernel.nodes import Element
from warpsmith.ops.table import TABLE

Mask = np.ndarray | None
Load = Callable[[Element, Mask], Cell]

_INDEX = {
    "add": lambda *terms: sum(terms),
    "mul": lambda *factors: _product(factors),
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "ceildiv": lambda a, b: -(-a // b),
    "minimum": np.minimum,
    "maximum": np.maximum,
    "xor": np.bitwise_xor,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
}


def _product(factors: tuple[np.ndarray, ...]) -> np.ndarray:
    result = np.asarray(1)
    for factor in factors:
        result = result * factor
    return result


class Evaluator:
    """Values of expressions, given the names that are known and a way to read elements.

    Args:
        names: value of each symbol.
        load: reads an element where a mask says so.
        bits: width of the index type; wider intermediate results are a fault.
        threads: how many there are, in all blocks.
    """

    def __init__(self, names: Mapping[str, Cell], load: Load, bits: int, threads: int) -> None:
        self._threads = threads
        self._names = names
        self._load = load
        self._limit = 2 ** (bits - 1)

    def __call__(self, expr: Expr, mask: Mask) -> Cell:
        if isinstance(expr, Const):
            return Cell(cast(np.asarray(expr.value), expr.dtype), ALWAYS)
        if isinstance(expr, Symbol):
            return self._names[expr.name]
        if isinstance(expr, Element):
            return self._load(expr, mask)
        if not isinstance(expr, Apply):
            raise Fault(f"{expr!r} cannot be computed")
        if expr.dtype is DataType.Index or _compares_indices(expr):
            return self._index(expr, mask)
        if expr.op == "where":
            return self._where(expr, mask)
        if expr.op == "logical_and":
            left = self(expr.args[0], mask)
            return _both(left, self(expr.args[1], narrowed(mask, left, self._threads)))
        args = [self(arg, mask) for arg in expr.args]
        defined = _all_defined(args)
        if expr.op == "cast":
            return Cell(cast(args[0].data, expr.dtype), defined)
        for cell, arg in zip(args, expr.args, strict=True):
            if cell.data.dtype != NUMPY_TYPES[arg.dtype]:
                raise Fault(f"{arg!r} should be {arg.dtype}, and is {cell.data.dtype}")
        op = "exp" if expr.op == "exp_near" else expr.op
        data = TABLE[op].numpy(*(np.asarray(cell.data) for cell in args))
        return Cell(np.asarray(data).astype(NUMPY_TYPES[expr.dtype]), defined)

    def index(self, expr: Expr, mask: Mask) -> np.ndarray:
        """An index or extent, which must be defined."""
        cell = self(expr, mask)
        if not np.all(cell.where(mask).defined):
            raise Fault(f"the index {expr!r} was never computed")
        return cell.data

    def _index(self, expr: Apply, mask: Mask) -> Cell:
        args = [self.index(arg, mask) for arg in expr.args]
        if expr.op == "divide":
            return Cell(_divided(expr, [sure(arg).where(mask).data for arg in args], args), ALWAYS)
        if expr.op in ("floordiv", "mod", "ceildiv"):
            numerator, divisor = (sure(a).where(mask).data for a in args)
            if np.any(numerator < 0) or np.any(divisor <= 0):
                raise Fault(f"{expr!r} divides {numerator.min()} by {divisor.min()}")
            args = [args[0], np.maximum(args[1], 1)]
        data = np.asarray(_INDEX[expr.op](*args))
        if data.dtype != np.bool_:
            live = sure(data).where(mask).data
            if live.size and np.abs(live).max() >= self._limit:
                raise Fault(f"{expr!r} reaches {np.abs(live).max()}, beyond the index type")
        return Cell(data, ALWAYS)

    def _where(self, expr: Apply, mask: Mask) -> Cell:
        """C++ only computes the side that is chosen."""
        condition, chosen, other = expr.args
        test = self(condition, mask)
        yes = self(chosen, narrowed(mask, test, self._threads))
        opposite = Cell(~test.data, test.defined)
        no = self(other, narrowed(mask, opposite, self._threads))
        data = np.where(test.data, yes.data, no.data)
        return Cell(data, test.defined & np.where(test.data, yes.defined, no.defined))


def _divided(expr: Apply, live: list[np.ndarray], args: list[np.ndarray]) -> np.ndarray:
    """Division by a multiplication, in the 32-bit steps that the GPU takes."""
    dividend, divisor, magic, shift = (np.asarray(a).astype(np.int64) for a in args)
    if np.any(live[0] < 0) or np.any(live[0] >= 2**31):
        raise Fault(f"{expr!r} divides {live[0].min()} .. {live[0].max()}, outside of 31 bits")
    low = dividend & 0xFFFFFFFF
    high = (low * (magic & 0xFFFFFFFF)) >> 32
    quotient = ((high + low) & 0xFFFFFFFF) >> shift
    wrong = sure(quotient != dividend // divisor)
    if np.any(wrong.data & (dividend >= 0) & (dividend < 2**31)):
        raise Fault(f"{expr!r} is not the quotient")
    return quotient


def narrowed(mask: Mask, condition: Cell, threads: int) -> Mask:
    """The threads of a mask for which a condition holds."""
    holds = np.broadcast_to(condition.data, (threads,))
    return holds if mask is None else mask & holds


def _both(left: Cell, right: Cell) -> Cell:
    """`left && right`: a false left side decides alone."""
    defined = left.defined & (right.defined | ~left.data)
    return Cell(left.data & right.data, np.asarray(defined))


def _all_defined(cells: list[Cell]) -> np.ndarray:
    defined = ALWAYS
    for cell in cells:
        defined = defined & cell.defined
    return np.asarray(defined)


def _compares_indices(expr: Apply) -> bool:
    return expr.op in ("lt", "le", "eq") and expr.args[0].dtype is DataType.Index


def cast(data: np.ndarray, dtype: DataType) -> np.ndarray:
    """Conversion between types; narrow floats meet integers by way of float."""
    with np.errstate(all="ignore"):
        if dtype is DataType.Bool:
            return np.asarray(data != 0)
        kind = NUMPY_TYPES[dtype]
        if data.dtype == kind:
            return data
        if (data.dtype.itemsize <= 2 and data.dtype.kind not in "ib") or (
            dtype.is_half and data.dtype != np.float64
        ):
            data = data.astype(np.float32)
        if dtype.is_float8:
            data = data.astype(np.float32)
            if dtype is DataType.Float8_e4m3fn:
                data = np.where(np.abs(data) > 448, np.copysign(np.float32(448), data), data)
        return np.asarray(data).astype(kind)
