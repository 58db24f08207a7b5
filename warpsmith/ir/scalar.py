"""Scalar expressions: extents, indices, and the values that a kernel computes.

Nodes are immutable and compare by structure; hashes are cached, so that a shared subexpression is
hashed once. Integer index arithmetic goes through `ir/integers.py`, whose constructors simplify;
this module only holds the nodes. All integers here are non-negative unless a user's scalar says
otherwise, so floor division and C division agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from warpsmith.ir.dtypes import DataType


class Expr:
    """Base of the scalar nodes. `if a < b` on an expression is a bug, so truth raises.

    Attributes:
        args: the nodes right below.
        operator: what Python's operators on expressions make, by the operation's name: a function
            of `ir/arithmetic.py`, which `ir` gives to this class when it is imported.
    """

    __slots__ = ("_hash", "dtype")
    operator: ClassVar[Callable[..., Expr]]
    args: tuple[Expr, ...] = ()
    dtype: DataType
    _hash: int

    def key(self) -> tuple[object, ...]:
        """What makes two nodes of one class equal."""
        raise NotImplementedError

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other) or not isinstance(other, Expr):
            return False
        return self._hash == other._hash and self.key() == other.key()

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is made again; each process has hashes of its own."""
        raise NotImplementedError

    def __bool__(self) -> bool:
        raise TypeError(f"the truth of {self!r} is known only at run time")

    def walk(self) -> Iterator[Expr]:
        """This node and all below it, parents first; shared nodes come once per use."""
        coming: list[Expr] = [self]
        while coming:
            node = coming.pop()
            yield node
            coming += node.args[::-1]

    def __add__(self, other: Expr | float) -> Expr:
        return _operator("add", self, other)

    def __radd__(self, other: float) -> Expr:
        return _operator("add", other, self)

    def __sub__(self, other: Expr | float) -> Expr:
        return _operator("sub", self, other)

    def __rsub__(self, other: float) -> Expr:
        return _operator("sub", other, self)

    def __mul__(self, other: Expr | float) -> Expr:
        return _operator("mul", self, other)

    def __rmul__(self, other: float) -> Expr:
        return _operator("mul", other, self)

    def __truediv__(self, other: Expr | float) -> Expr:
        return _operator("truediv", self, other)

    def __rtruediv__(self, other: float) -> Expr:
        return _operator("truediv", other, self)

    def __floordiv__(self, other: Expr | float) -> Expr:
        return _operator("floordiv", self, other)

    def __rfloordiv__(self, other: float) -> Expr:
        return _operator("floordiv", other, self)

    def __mod__(self, other: Expr | float) -> Expr:
        return _operator("remainder", self, other)

    def __rmod__(self, other: float) -> Expr:
        return _operator("remainder", other, self)

    def __neg__(self) -> Expr:
        return _operator("sub", 0, self)

    def __lt__(self, other: Expr | float) -> Expr:
        return _operator("lt", self, other)

    def __le__(self, other: Expr | float) -> Expr:
        return _operator("le", self, other)

    def __gt__(self, other: Expr | float) -> Expr:
        return _operator("gt", self, other)

    def __ge__(self, other: Expr | float) -> Expr:
        return _operator("ge", self, other)


class Const(Expr):
    """A literal."""

    __slots__ = ("value",)

    def __init__(self, value: float | bool, dtype: DataType = DataType.Index) -> None:
        self.value = value
        self.dtype = dtype
        self._hash = hash((Const, repr(value), dtype))

    def __reduce__(self) -> tuple[Any, ...]:
        return Const, (self.value, self.dtype)

    def key(self) -> tuple[object, ...]:
        return (repr(self.value), self.dtype)  # repr tells -0.0 from 0.0 and equates NaN

    def __repr__(self) -> str:
        return repr(self.value)


class Symbol(Expr):
    """A named value: a tensor's size or stride, a user's scalar, a loop or thread index.

    Args:
        name: C identifier, unique in its kernel.
        extent: when given, `0 <= symbol < extent`.
        low: lower bound that always holds, when known.
    """

    __slots__ = ("extent", "low", "name")

    def __init__(
        self,
        name: str,
        dtype: DataType = DataType.Index,
        *,
        extent: Expr | None = None,
        low: int | None = None,
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.extent = extent
        self.low = 0 if extent is not None else low
        self._hash = hash((Symbol, name, dtype))

    def __reduce__(self) -> tuple[Any, ...]:
        rest = (("extent", self.extent), ("low", self.low))
        return Symbol, (self.name, self.dtype), rest

    def __setstate__(self, rest: tuple[tuple[str, Any], ...]) -> None:
        for name, value in rest:
            setattr(self, name, value)

    def key(self) -> tuple[object, ...]:
        return (self.name, self.dtype, self.extent)

    def __repr__(self) -> str:
        return self.name


class Address(Expr):
    """Where a tensor of the kernel begins in global memory; only operations that look something up
    there take it, which no host evaluates.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name
        self.dtype = DataType.Index
        self._hash = hash((Address, name))

    def __reduce__(self) -> tuple[Any, ...]:
        return Address, (self.name,)

    def key(self) -> tuple[object, ...]:
        return (self.name,)

    def __repr__(self) -> str:
        return self.name


class Apply(Expr):
    """An operation on scalars. `op` is a name of `ops/table` or of the integer kernel below.

    Integer operations made by `ir/integers.py`: `add mul floordiv mod ceildiv minimum maximum xor`,
    and `lt le eq logical_and logical_or` for predicates. `ir/groups.py` makes `group` and
    `group_end`, which read memory.

    Attributes:
        polynomial: the sum that the node is, once `ir/integers.py` has worked it out; like the
            hash, it is kept because shared nodes are asked again and again.
    """

    __slots__ = ("args", "op", "polynomial")

    def __init__(self, op: str, args: tuple[Expr, ...], dtype: DataType) -> None:
        self.op = op
        self.args = args
        self.dtype = dtype
        self.polynomial: dict[tuple[Expr, ...], int] | None = None
        self._hash = hash((Apply, op, args, dtype))

    def __reduce__(self) -> tuple[Any, ...]:
        return Apply, (self.op, self.args, self.dtype)

    def key(self) -> tuple[object, ...]:
        return (self.op, self.args, self.dtype)

    def __repr__(self) -> str:
        return f"{self.op}({', '.join(map(repr, self.args))})"


def _operator(op: str, *operands: Expr | float) -> Expr:
    """A Python operator; for operands of other classes (tensors have theirs) NotImplemented."""
    if not all(isinstance(x, Expr | float | int) for x in operands):
        return NotImplemented  # type: ignore[no-any-return]  # Python asks the other operand
    return Expr.operator(op, *operands)


def literal(value: float | bool) -> Const:
    """A Python number as a constant of Python's own type: Bool, Int or Double."""
    if isinstance(value, bool):
        return Const(value, DataType.Bool)
    if isinstance(value, int):
        return Const(value, DataType.Int)
    return Const(float(value), DataType.Double)


def evaluate(expr: Expr, values: Mapping[str, int]) -> int:
    """Integer value of an index expression; `values` gives every symbol by name."""
    if isinstance(expr, Const):
        return int(expr.value)
    if isinstance(expr, Symbol):
        return values[expr.name]
    if isinstance(expr, Apply):
        return OPERATIONS[expr.op](*(evaluate(arg, values) for arg in expr.args))
    raise TypeError(f"{expr!r} is not an integer expression")


def is_evaluated(expr: Expr) -> bool:
    """Whether `evaluate` has the value that a kernel has: of whole numbers, by its operations.

    It computes without bounds, so casts to types that hold fewer numbers than sizes are not among
    them.
    """
    return all(
        not node.dtype.is_float and (not isinstance(node, Apply) or _is_evaluated(node))
        for node in expr.walk()
    )


def _is_evaluated(node: Apply) -> bool:
    narrow = node.op == "cast" and (node.dtype is DataType.Bool or node.dtype.is_small_int)
    return node.op in OPERATIONS and not narrow


OPERATIONS: Mapping[str, Callable[..., int]] = {
    "cast": int,
    "sub": lambda a, b: a - b,
    "add": lambda *terms: sum(terms),
    "mul": lambda *factors: math.prod(factors),
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "ceildiv": lambda a, b: -(-a // b),
    "xor": lambda a, b: a ^ b,
    "where": lambda condition, a, b: a if condition else b,
    "minimum": min,
    "maximum": max,
    "lt": lambda a, b: int(a < b),
    "le": lambda a, b: int(a <= b),
    "eq": lambda a, b: int(a == b),
    "logical_and": lambda a, b: int(bool(a) and bool(b)),
    "logical_or": lambda a, b: int(bool(a) or bool(b)),
}
"""Of integers, what each operation gives."""
