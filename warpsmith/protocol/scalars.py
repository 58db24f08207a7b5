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


class UnknownError(Exception):
    """An expression that threads of one warp may disagree on, or that memory decides."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


@dataclass(frozen=True, slots=True)
class Scalar:
    """An integer: a constant, or a function of the values with these names."""

    constant: int | None
    function: Function
    names: frozenset[str] = frozenset()

    def __call__(self, values: Values) -> int:
        return self.function(values)


def constant(value: int) -> Scalar:
    return Scalar(value, lambda values: value)


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
                return Scalar(None, lambda values: values[place] // stages, names)
            return Scalar(None, lambda values: values[place] % stages, names)
        if first:
            return constant(0)
        if name in self.loops:
            return Scalar(None, lambda values: values[name], frozenset((name,)))
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
            return Scalar(None, _binary(operation, *args), names)
        functions = [arg.function for arg in args]
        return Scalar(None, lambda values: int(operation(*[f(values) for f in functions])), names)

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
        return Scalar(None, lambda values: int(all(side(values) for side in sides)), names)


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
