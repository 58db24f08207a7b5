"""Sizes of a graph of torch's, numbers or expressions of symbols, as extents of a fusion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy
from torch.utils._sympy import functions

from warpsmith.ir import integers
from warpsmith.ir.scalar import Const, Expr


class UnknownSize(Exception):
    """An expression of symbols that no dimension and no number of the fusion tells."""


def expression_of(size: Any) -> Any:
    """A size as a number or as sympy's expression."""
    return size.node.expr if hasattr(size, "node") else size


class Sizes:
    """What the symbols of a graph are in one fusion."""

    def __init__(self) -> None:
        self._known: dict[Any, Expr] = {}

    def learn(self, size: Any, extent: Expr) -> None:
        """An input of the fusion tells a size, which may be an expression of symbols as a whole."""
        found = expression_of(size)
        if not isinstance(found, int | sympy.Integer):
            self._known.setdefault(found, extent)

    def extent(self, size: Any) -> Expr:
        """A size in the symbols of the fusion.

        Raises:
            UnknownSize: where the fusion's inputs do not tell it.
        """
        return self._translated(expression_of(size))

    def _translated(self, found: Any) -> Expr:
        if isinstance(found, int | sympy.Integer):
            return Const(int(found))
        known = self._known.get(found)
        if known is not None:
            return known
        join = _JOINS.get(type(found))
        if join is None:
            raise UnknownSize(str(found))
        parts = [self._translated(part) for part in found.args]
        result: Expr | None = join(*parts) if len(parts) < 3 or join in _OF_MANY else None
        if result is None:
            raise UnknownSize(str(found))
        return result


def _power(base: Expr, exponent: Expr) -> Expr | None:
    if isinstance(exponent, Const) and 0 < int(exponent.value) < 8:
        return integers.mul(*[base] * int(exponent.value))
    return None


_OF_MANY = (integers.add, integers.mul)
_JOINS: Mapping[type, Any] = {
    sympy.Add: integers.add,
    sympy.Mul: integers.mul,
    sympy.Pow: _power,
    functions.FloorDiv: integers.floordiv,
    functions.CleanDiv: integers.floordiv,
    functions.Mod: integers.mod,
    functions.PythonMod: integers.mod,
    functions.Max: integers.maximum,
    functions.Min: integers.minimum,
}
"""What sympy's and torch's operations on sizes are among indices."""


def is_free(size: Any) -> bool:
    """Whether a size is a symbol by itself, which a dimension can tell."""
    return isinstance(expression_of(size), sympy.Symbol)


def is_number(size: Any) -> bool:
    return isinstance(expression_of(size), int | sympy.Integer)


def hint_of(size: Any) -> int:
    """A size as it is in the call that is traced; 2 where only data will tell."""
    if isinstance(size, int):
        return size
    hint = size.node.hint
    return 2 if hint is None else int(hint)
