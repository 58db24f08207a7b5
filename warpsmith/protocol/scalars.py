"""Integers that synchronization depends on, made ready to be evaluated over and over.

Launch values, the block's index and, in a role of groups, the group's number are known, so most of
an expression folds. What is left are loop indices and places of cursors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.kernel.rings import Cursor

Values = dict[str, int]
"""Of loop indices, by name, and of cursors: slot + stages * phase, by the cursor's name."""

Function = Callable[[Values], int]

Range = tuple[float, float]
"""The least and the largest value of an integer."""

Ranges = Mapping[str, Range]
"""Of loop indices, by name."""

ANY: Range = (-math.inf, math.inf)


class UnknownError(Exception):
    """An expression that threads of one warp may disagree on, or that memory decides."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


@dataclass(frozen=True, slots=True)
class Scalar:
    """An integer: a constant, or a function of the values with these names.

    Attributes:
        op, parts: the operation that it is, if it is one, and its operands.
        own: its range, where it is no operation and no loop index.
    """

    constant: int | None
    function: Function
    names: frozenset[str] = frozenset()
    op: str = ""
    parts: tuple[Scalar, ...] = ()
    own: Range | None = None

    def __call__(self, values: Values) -> int:
        return self.function(values)

    def range(self, ranges: Ranges) -> Range:
        """Bounds of the value, where loop indices are within theirs."""
        return self._seen("", ranges)[0]

    def independent(self, name: str, ranges: Ranges) -> bool:
        """Whether the value is the same for all values of one loop index within its range."""
        return name not in self.names or self._seen(name, ranges)[1]

    def _seen(self, name: str, ranges: Ranges) -> tuple[Range, bool]:
        """Bounds of the value, and whether a loop index within its range decides nothing of it."""
        if self.constant is not None:
            return (self.constant, self.constant), True
        if not self.op:
            found = self.own or ranges.get(next(iter(self.names)), ANY)
            return found, name not in self.names or found[0] == found[1]
        parts = [part._seen(name, ranges) for part in self.parts]
        bounds = _RANGES.get(self.op)
        found = bounds(*[part[0] for part in parts]) if bounds else ANY
        return found, found[0] == found[1] or all(part[1] for part in parts)


def constant(value: int) -> Scalar:
    return Scalar(value, lambda values: value)


def index(name: str) -> Scalar:
    """The index of a loop."""
    return Scalar(None, lambda values: values[name], frozenset((name,)))


@dataclass(slots=True)
class Scope:
    """What the names in a piece of a kernel stand for.

    Attributes:
        known: names whose value is the same all the time.
        lets: names that stand for an expression.
        loops: indices of the loops around.
    """

    known: Mapping[str, int]
    cursors: dict[str, Cursor] = field(default_factory=dict)
    lets: dict[str, Expr] = field(default_factory=dict)
    loops: set[str] = field(default_factory=set)

    def begin(self, cursor: Cursor) -> None:
        """A cursor's symbols get a meaning."""
        for symbol in cursor.symbols:
            self.cursors[symbol.name] = cursor

    def scalar(self, expr: Expr, *, first: bool = False) -> Scalar:
        """An expression, ready to be evaluated.

        Args:
            first: loop and thread indices count as 0.

        Raises:
            UnknownError: the value is not the same in all threads of a warp.
        """
        if isinstance(expr, Const):
            return constant(int(expr.value))
        if isinstance(expr, Symbol):
            return self._symbol(expr.name, first)
        if isinstance(expr, Apply):
            return self._apply(expr, first)
        raise UnknownError(repr(expr))

    def _symbol(self, name: str, first: bool) -> Scalar:
        value = self.known.get(name)
        if value is not None:
            return constant(value)
        if name in self.lets:
            return self.scalar(self.lets[name], first=first)
        cursor = self.cursors.get(name)
        if cursor is not None:
            place, stages = cursor.name, cursor.stages
            names = frozenset((place,))
            if name == cursor.phase.name:
                return Scalar(None, lambda values: values[place] // stages, names, own=(0, 1))
            end = stages - 1
            return Scalar(None, lambda values: values[place] % stages, names, own=(0, end))
        if first:
            return constant(0)
        if name in self.loops:
            return index(name)
        raise UnknownError(name)

    def _apply(self, expr: Apply, first: bool) -> Scalar:
        if expr.op == "logical_and":
            return self._both(expr, first)
        if expr.op not in _OPERATIONS:
            raise UnknownError(repr(expr))
        operation = _OPERATIONS[expr.op]
        args = tuple([self.scalar(arg, first=first) for arg in expr.args])
        constants = [arg.constant for arg in args if arg.constant is not None]
        if len(constants) == len(args):
            return constant(int(operation(*constants)))
        names = frozenset().union(*(arg.names for arg in args))
        if len(args) == 2:
            return Scalar(None, _binary(operation, *args), names, expr.op, args)
        functions = [arg.function for arg in args]

        def function(values: Values) -> int:
            return int(operation(*[each(values) for each in functions]))

        return Scalar(None, function, names, expr.op, args)

    def _both(self, expr: Apply, first: bool) -> Scalar:
        """A conjunction is false where one side is, whatever the other side may be."""
        sides: list[Scalar] = []
        unknown: UnknownError | None = None
        for arg in expr.args:
            try:
                side = self.scalar(arg, first=first)
            except UnknownError as error:
                unknown = error
                continue
            if side.constant == 0:
                return side
            if side.constant is None:
                sides.append(side)
        if unknown is not None:
            raise unknown
        if len(sides) < 2:
            return sides[0] if sides else constant(1)
        names = frozenset().union(*(side.names for side in sides))
        functions = [side.function for side in sides]

        def function(values: Values) -> int:
            return int(all(each(values) for each in functions))

        return Scalar(None, function, names, expr.op, tuple(sides))


def _binary(operation: Callable[..., int], a: Scalar, b: Scalar) -> Function:
    """A function of two operands, one of which is often constant."""
    f, g = a.function, b.function
    if b.constant is not None:
        right = b.constant
        return lambda values: int(operation(f(values), right))
    if a.constant is not None:
        left = a.constant
        return lambda values: int(operation(left, g(values)))
    return lambda values: int(operation(f(values), g(values)))


_OPERATIONS: dict[str, Callable[..., int]] = {
    "cast": int,
    "sub": lambda a, b: a - b,
    "add": lambda *terms: sum(terms),
    "mul": lambda *factors: math.prod(factors),
    "floordiv": lambda a, b: a // b,
    "divide": lambda a, b, magic, shift: a // b,
    "mod": lambda a, b: a % b,
    "ceildiv": lambda a, b: -(-a // b),
    "xor": lambda a, b: a ^ b,
    "where": lambda condition, a, b: a if condition else b,
    "minimum": min,
    "maximum": max,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "eq": lambda a, b: a == b,
    "logical_or": lambda a, b: bool(a) or bool(b),
}


def _sum(*terms: Range) -> Range:
    return sum(low for low, _ in terms), sum(high for _, high in terms)


def _product(*factors: Range) -> Range:
    low, high = factors[0]
    for a, b in factors[1:]:
        corners = [_times(x, y) for x in (low, high) for y in (a, b)]
        low, high = min(corners), max(corners)
    return low, high


def _times(a: float, b: float) -> float:
    return 0 if a == 0 or b == 0 else a * b


def _quotient(a: Range, b: Range, *rest: Range) -> Range:
    if b[0] < 1 or math.inf in (abs(a[0]), abs(a[1]), b[1]):
        return ANY
    corners = [x // y for x in a for y in b]
    return min(corners), max(corners)


def _raised_quotient(a: Range, b: Range) -> Range:
    low, high = _quotient((-a[1], -a[0]), b)
    return -high, -low


def _remainder(a: Range, b: Range) -> Range:
    if b[0] != b[1] or b[0] < 1:
        return ANY
    if math.inf not in (abs(a[0]), abs(a[1])) and a[0] // b[0] == a[1] // b[0]:
        return a[0] % b[0], a[1] % b[0]
    return 0, b[0] - 1


def _less(a: Range, b: Range) -> Range:
    return int(a[1] < b[0]), int(a[0] < b[1])


def _at_most(a: Range, b: Range) -> Range:
    return int(a[1] <= b[0]), int(a[0] <= b[1])


def _equal(a: Range, b: Range) -> Range:
    return int(a[0] == a[1] == b[0] == b[1]), int(a[0] <= b[1] and b[0] <= a[1])


def _both_of(*sides: Range) -> Range:
    return int(all(_holds(side) for side in sides)), int(not any(side == (0, 0) for side in sides))


def _one_of(*sides: Range) -> Range:
    return int(any(_holds(side) for side in sides)), int(any(side != (0, 0) for side in sides))


def _holds(side: Range) -> bool:
    """Whether it is never 0."""
    return side[0] > 0 or side[1] < 0


def _chosen(condition: Range, a: Range, b: Range) -> Range:
    if condition == (0, 0):
        return b
    return a if _holds(condition) else (min(a[0], b[0]), max(a[1], b[1]))


_RANGES: dict[str, Callable[..., Range]] = {
    "cast": lambda a: a,
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "add": _sum,
    "mul": _product,
    "floordiv": _quotient,
    "divide": _quotient,
    "ceildiv": _raised_quotient,
    "mod": _remainder,
    "where": _chosen,
    "minimum": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "maximum": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "lt": _less,
    "le": _at_most,
    "eq": _equal,
    "logical_and": _both_of,
    "logical_or": _one_of,
}
