"""Scalar expressions as C++ text."""

from __future__ import annotations

import ctypes
import math

from warpsmith.errors import InternalError
from warpsmith.ir import integers
from warpsmith.ir.bounds import LOOKUPS
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.reads import CHECKS, SEARCHES
from warpsmith.ir.scalar import Address, Apply, Const, Expr, Symbol
from warpsmith.kernel.nodes import Buffer, Element
from warpsmith.ops.table import TABLE

STORAGE = {
    DataType.Double: "double",
    DataType.Float: "float",
    DataType.Half: "ws_half",
    DataType.BFloat16: "ws_bfloat16",
    DataType.Float8_e4m3fn: "ws_float8_e4m3fn",
    DataType.Float8_e5m2: "ws_float8_e5m2",
    DataType.Int: "long long",
    DataType.Int32: "int",
    DataType.Int16: "short",
    DataType.Int8: "signed char",
    DataType.UInt8: "unsigned char",
    DataType.Bool: "bool",
}

_INTEGER_TEXT = {"mul": " * ", "xor": " ^ ", "logical_and": " && ", "logical_or": " || "}
_COMPARE_TEXT = {"lt": "<", "le": "<=", "eq": "=="}

_OF_INDICES = {**dict.fromkeys(LOOKUPS, "groups"), **dict.fromkeys(CHECKS, "places")}
"""Functions of the prelude for every type of indices, with their pieces."""

_OF_VALUES = {
    **dict.fromkeys(SEARCHES, "searches"),
    "divide_full": "divide_full",
    **{name: name for name in ("divide_near", "divide_whole", "nearest_int")},
    "philox_word": "philox",
    **dict.fromkeys(("kept_word", "kept_half"), "kept"),
    "times_parts": "times_parts",
    "exp_near": "exp_near",
    "widen_again": "widen_again",
    "one_plus_tanh": "tanh",
    **dict.fromkeys(("sigmoid_near", "silu_near"), "sigmoid_near"),
}
"""Functions of the prelude, with their pieces."""


def is_scalar(buffer: Buffer) -> bool:
    """Whether the buffer is one element in registers."""
    return buffer.memory is MemoryType.local and buffer.size == integers.ONE


class ValueText:
    """Prints expressions, and remembers which prelude pieces they need.

    Args:
        index_type: C type of the index type, `int` or `long long`.

    Attributes:
        pieces: names of the prelude pieces that what was printed needs.
        cleared: names of the registers that are zero at first.
        computed_bytes: names of registers, as `bytes.computed_bytes` finds them.
    """

    def __init__(self, index_type: DataType) -> None:
        self._index = index_type
        self.pieces: set[str] = set()
        self.cleared: frozenset[str] = frozenset()
        self.computed_bytes: frozenset[str] | None = None

    def type_name(self, dtype: DataType) -> str:
        """C++ type in which elements are stored."""
        if dtype.is_narrow:
            self.pieces.add(dtype.value)
        return STORAGE[self._index if dtype is DataType.Index else dtype]

    def __call__(self, expr: Expr) -> str:
        if isinstance(expr, Const):
            return self._literal(expr)
        if isinstance(expr, Symbol | Address):
            return expr.name
        if isinstance(expr, Element):
            return self.place(expr.buffer, expr.index)
        if isinstance(expr, Apply):
            return self._apply(expr)
        raise InternalError(f"{expr!r} cannot be printed")

    def registers(self, buffer: Buffer) -> str:
        """The declaration of what a thread has of a buffer in registers."""
        if buffer.packed:
            self.pieces.add("bits")
            return f"ws_bits<{self(buffer.size)}> {buffer.name}"
        size = "" if is_scalar(buffer) else f"[{self(buffer.size)}]"
        value = " = {}" if buffer.name in self.cleared else ""
        return f"{self.type_name(buffer.dtype)} {buffer.name}{size}{value}"

    def place(self, buffer: Buffer, index: Expr, lane: str = "") -> str:
        """An element as C++ text; registers of one element are plain variables."""
        if is_scalar(buffer):
            return buffer.name
        if not lane:
            return f"{buffer.name}[{self(index)}]"
        offset = "" if index == integers.ZERO else f"{self(index)} + "
        return f"{buffer.name}[{offset}{lane}]"

    def address(self, buffer: Buffer, index: Expr) -> str:
        """Where an element is, as C++ text."""
        if is_scalar(buffer):
            return f"&{buffer.name}"
        return buffer.name if index == integers.ZERO else f"{buffer.name} + {self.operand(index)}"

    def operand(self, expr: Expr) -> str:
        """`expr` in parentheses unless it is a name or a number."""
        text = self(expr)
        return text if text.isidentifier() or text.isdigit() else f"({text})"

    def _apply(self, expr: Apply) -> str:
        if expr.op in _OF_INDICES:
            self.pieces.add(_OF_INDICES[expr.op])
            kind = self.type_name(DataType.Index)
            return f"ws_{expr.op}<{kind}>({', '.join(map(self, expr.args))})"
        if expr.op in _OF_VALUES:
            self.pieces.add(_OF_VALUES[expr.op])
            return f"ws_{expr.op}({', '.join(map(self, expr.args))})"
        if expr.op == "cast":
            byte = expr.dtype is DataType.Float and expr.args[0].dtype.is_byte
            if byte and self.computed_bytes is not None:
                return self._from_byte(expr.args[0], self.computed_bytes)
            return self.cast(self(expr.args[0]), expr.args[0].dtype, expr.dtype)
        first, of_index = expr.args[0], expr.dtype is DataType.Index and expr.op != "where"
        if (
            of_index
            or first.dtype is DataType.Index
            or (expr.op in ("logical_and", "logical_or") and self._is_predicate(expr))
        ):
            return self._integer(expr)
        if expr.op == "where":
            condition, chosen, other = map(self.operand, expr.args)
            return f"{condition} ? {chosen} : {other}"
        op = TABLE[expr.op]
        self.pieces.update(op.pieces)
        dtype = expr.args[op.conditions].dtype
        return op.cuda(dtype, tuple(map(self, expr.args)))

    def _is_predicate(self, expr: Apply) -> bool:
        return all(arg.dtype is DataType.Bool for arg in expr.args)

    def _integer(self, expr: Apply) -> str:
        if expr.op == "add":
            return " + ".join(map(self._term, expr.args))
        args = [self.operand(arg) for arg in expr.args]
        if expr.op in _INTEGER_TEXT:
            return _INTEGER_TEXT[expr.op].join(args)
        if expr.op in _COMPARE_TEXT:
            return f"{args[0]} {_COMPARE_TEXT[expr.op]} {args[1]}"
        if expr.op == "divide":
            self.pieces.add("divide")
            dividend, _, magic, shift = args
            return f"ws_divide({dividend}, {magic}, {shift})"
        kind = self.type_name(DataType.Index)
        a, b = (f"(unsigned {kind}){arg}" for arg in args)
        if expr.op == "floordiv":
            return f"({kind})({a} / {b})"
        if expr.op == "mod":
            return f"({kind})({a} % {b})"
        if expr.op == "ceildiv":
            return f"({kind})(({a} + {b} - 1) / {b})"
        order = "<" if expr.op == "minimum" else ">"
        return f"{args[0]} {order} {args[1]} ? {args[0]} : {args[1]}"

    def _term(self, expr: Expr) -> str:
        """A summand: products bind tighter than sums and need no parentheses."""
        product = isinstance(expr, Apply) and expr.op == "mul"
        return self(expr) if product else self.operand(expr)

    def cast(self, text: str, source: DataType, target: DataType) -> str:
        """Convert a value; narrow floats meet each other and integers by way of float.

        A float becomes a small integer by way of Int32: beyond that, the number is unspecified.
        """
        if source is target:
            return text
        if target is DataType.Bool:
            zero = "0.0f" if source.is_narrow else "0"
            return f"(({self.cast(text, source, source.compute)}) != {zero})"
        if source.is_narrow and not target.is_float:
            return self.cast(self.cast(text, source, DataType.Float), DataType.Float, target)
        if target.is_narrow and source not in (DataType.Float, DataType.Double):
            return self.cast(self.cast(text, source, DataType.Float), DataType.Float, target)
        if target.is_small_int and source.is_float:
            return self.cast(self.cast(text, source, DataType.Int32), DataType.Int32, target)
        self.type_name(source)
        return f"({self.type_name(target)})({text})"

    def _from_byte(self, value: Expr, all_computed: frozenset[str]) -> str:
        self.pieces.add("from_byte")
        computed = isinstance(value, Apply) or (
            isinstance(value, Element) and value.buffer.name in all_computed
        )
        return f"ws_from_{'int' if computed else 'byte'}({self(value)})"

    def _literal(self, expr: Const) -> str:
        value, dtype = expr.value, expr.dtype
        if dtype is DataType.Bool:
            return "true" if value else "false"
        if dtype.is_narrow:
            return self.cast(self._literal(Const(value, DataType.Float)), DataType.Float, dtype)
        if dtype.is_float:
            return self._float_literal(float(value), dtype)
        number = int(value)
        if dtype is DataType.Int and number == -(2**63):
            return "(-9223372036854775807ll - 1)"
        if dtype is DataType.Int32 and number == -(2**31):
            return "(-2147483647 - 1)"
        return f"{number}ll" if dtype is DataType.Int else str(number)

    def _float_literal(self, value: float, dtype: DataType) -> str:
        single = dtype is DataType.Float
        if single and (held := ctypes.c_float(value).value) in (0.0, math.inf, -math.inf):
            value = held  # a literal beyond what the type holds is an error of C++
        if math.isnan(value):
            quiet = "__longlong_as_double(0x7ff8000000000000ll)"
            return "__int_as_float(0x7fc00000)" if single else quiet
        if math.isinf(value):
            sign = "-" if value < 0 else ""
            infinite = "__longlong_as_double(0x7ff0000000000000ll)"
            return f"({sign}{'__int_as_float(0x7f800000)' if single else infinite})"
        return f"{value!r}f" if single else repr(value)
