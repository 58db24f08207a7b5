"""Integers that synchronization depends on, made ready to be evaluated over and over.

Launch values, the block's index and, in a role of groups, the group's number are known, so most of
an expression folds. What is left are loop indices and places of cursors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from warpsmith.ir.groups import most_parts
from warpsmith.ir.scalar import OPERATIONS, Apply, Const, Expr, Symbol
from warpsmith.kernel.rings import Cursor
from warpsmith.protocol.ranges import ANY, RANGES, Range
from warpsmith.values import dataclass

Values = dict[str, int]
"""Of loop indices, by name, and of cursors: stage + stages * phase, by the cursor's name."""

Function = Callable[[Values], int]

Ranges = Mapping[str, Range]
"""Of loop indices, by name."""


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
        return self._seen("", ranges, {})[0]

    def independent(self, name: str, ranges: Ranges, seen: Seen | None = None) -> bool:
        """Whether the value is the same for all values of one loop index within its range.

        Args:
            seen: what was found of other scalars, for this index and these ranges.
        """
        return name not in self.names or self._seen(name, ranges, {} if seen is None else seen)[1]

    def _seen(self, name: str, ranges: Ranges, seen: Seen) -> tuple[Range, bool]:
        """Bounds of the value, and whether a loop index within its range decides nothing of it."""
        if self.constant is not None:
            return (self.constant, self.constant), True
        known = seen.get(id(self))
        if known is not None:
            return known
        if not self.op:
            found = self.own or ranges.get(next(iter(self.names)), ANY)
            alike = name not in self.names
        elif len(self.parts) == 2:
            (a, a_alike), (b, b_alike) = [part._seen(name, ranges, seen) for part in self.parts]
            bounds = RANGES.get(self.op)
            found = bounds(a, b) if bounds else ANY
            alike = a_alike and b_alike
        else:
            parts = [part._seen(name, ranges, seen) for part in self.parts]
            bounds = RANGES.get(self.op)
            found = bounds(*[part[0] for part in parts]) if bounds else ANY
            alike = all(part[1] for part in parts)
        result = seen[id(self)] = found, alike or found[0] == found[1]
        return result


Seen = dict[int, tuple[Range, bool]]
"""Of scalars, by identity: bounds, and whether an index decides nothing of the value."""


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
    _found: dict[tuple[str, bool], Scalar] = field(default_factory=dict)
    _equal: dict[tuple[object, ...], Scalar] = field(default_factory=dict)

    def begin(self, cursor: Cursor) -> None:
        """A cursor's symbols get a meaning."""
        for symbol in cursor.symbols:
            if self.cursors.get(symbol.name) != cursor:
                self.cursors[symbol.name] = cursor
                self._found.clear()

    def let(self, name: str, value: Expr) -> None:
        """A name stands for an expression from now on."""
        if self.lets.get(name) is not value:
            self.lets[name] = value
            self._found.clear()

    def enter(self, name: str) -> None:
        """A loop begins over an index of this name."""
        self.loops.add(name)
        self._found.clear()

    def leave(self, name: str) -> None:
        """It ends."""
        self.loops.discard(name)
        self._found.clear()

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
            found = self._found.get((expr.name, first))
            if found is None:
                found = self._found[expr.name, first] = self._symbol(expr.name, first)
            return found
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
            phase = name == cursor.phase.name
            key = (cursor.name, cursor.stages, phase)
            return self._equal.get(key) or self._equal.setdefault(key, _place(cursor, phase))
        if first:
            return constant(0)
        if name in self.loops:
            return self._equal.get((name,)) or self._equal.setdefault((name,), index(name))
        raise UnknownError(name)

    def _apply(self, expr: Apply, first: bool) -> Scalar:
        if expr.op == "logical_and":
            return self._both(expr, first)
        if expr.op == "group_parts":  # what all agents are told alike: the most is one of them
            return self.scalar(most_parts(expr), first=first)
        if expr.op not in _OPERATIONS:
            raise UnknownError(repr(expr))
        operation = _OPERATIONS[expr.op]
        args = tuple([self.scalar(arg, first=first) for arg in expr.args])
        constants = [arg.constant for arg in args if arg.constant is not None]
        if len(constants) == len(args):
            return constant(int(operation(*constants)))
        key = (expr.op, *[id(a) if a.constant is None else (a.constant,) for a in args])
        found = self._equal.get(key)
        if found is None:
            found = self._equal[key] = _applied(expr.op, operation, args)
        return found

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


def _place(cursor: Cursor, phase: bool) -> Scalar:
    """The phase, or the stage, of a cursor."""
    name, stages = cursor.name, cursor.stages
    if phase:
        return Scalar(None, lambda values: values[name] // stages, frozenset((name,)), own=(0, 1))
    own = (0, stages - 1)
    return Scalar(None, lambda values: values[name] % stages, frozenset((name,)), own=own)


def _applied(op: str, operation: Callable[..., int], args: tuple[Scalar, ...]) -> Scalar:
    names = frozenset().union(*(arg.names for arg in args))
    if len(args) == 2:
        return Scalar(None, _binary(operation, *args), names, op, args)
    functions = [arg.function for arg in args]

    def function(values: Values) -> int:
        return int(operation(*[each(values) for each in functions]))

    return Scalar(None, function, names, op, args)


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


_OPERATIONS: Mapping[str, Callable[..., int]] = {
    **OPERATIONS,
    "divide": lambda a, b, magic, shift: a // b,
}
