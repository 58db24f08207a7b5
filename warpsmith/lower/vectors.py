"""Proof that a vectorized loop walks adjacent, aligned elements."""

from __future__ import annotations

from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.integers import Facts
from warpsmith.ir.polynomials import expression, polynomial
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol


class Vectorizer:
    """Collects what must divide evenly for the vector accesses of a kernel to be right.

    Attributes:
        requirements: (expression over run-time parameters, divisor) that the launch must check.
    """

    def __init__(self, facts: Facts, parameters: frozenset[str]) -> None:
        self._facts = facts
        self._parameters = parameters
        self.requirements: dict[tuple[Expr, int], None] = {}

    def base(self, index: Expr, lane: Symbol, width: int) -> Expr | None:
        """`index` at lane 0, if `index = base + lane` with `base` a multiple of `width`.

        Divisibility that follows from neither constants nor facts is required of the parameters
        that occur; None means that no requirement on them would help.
        """
        found = self.linear(index, lane, width)
        if found is None or found[1] != 1 or not self.require(found[0], width):
            return None
        return found[0]

    def knows(self, index: Expr, lane: Symbol, width: int) -> bool:
        """Whether `base` would require nothing of the launch."""
        found = self.linear(index, lane, width)
        if found is None or found[1] != 1:
            return False
        return integers.divides(width, _congruent(found[0], width), self._facts)

    def linear(self, expr: Expr, lane: Symbol, width: int) -> tuple[Expr, int] | None:
        """(value at lane 0, increment per lane), or None when it is not linear in the lane."""
        if expr == lane:
            return integers.ZERO, 1
        if not isinstance(expr, Apply):
            return expr, 0
        if not any(node == lane for node in expr.walk()):
            return expr, 0
        if expr.op == "add":
            parts = [self.linear(arg, lane, width) for arg in expr.args]
            if any(part is None for part in parts):
                return None
            found = [part for part in parts if part is not None]
            return integers.add(*(base for base, _ in found)), sum(step for _, step in found)
        if expr.op == "mul":
            return self._scaled(expr, lane, width)
        if expr.op in ("mod", "floordiv"):
            part = self.linear(expr.args[0], lane, width)
            radix = expr.args[1]
            if part is None or part[1] not in (0, 1):
                return None
            if part[1] == 0:
                return (integers.mod if expr.op == "mod" else integers.floordiv)(part[0], radix), 0
            if not (self.require(part[0], width) and self.require(radix, width)):
                return None
            if expr.op == "mod":
                return integers.mod(part[0], radix), 1
            return integers.floordiv(part[0], radix), 0
        return None

    def _scaled(self, product: Apply, lane: Symbol, width: int) -> tuple[Expr, int] | None:
        """`linear` of a product: by a constant, or of what is the same in all lanes."""
        inside = [arg for arg in product.args if any(node == lane for node in arg.walk())]
        part = self.linear(inside[0], lane, width) if len(inside) == 1 else None
        if part is None:
            return None
        factor = integers.mul(*(arg for arg in product.args if arg is not inside[0]))
        known = integers.constant(factor)
        if part[1] and known is None:
            return None
        return integers.mul(part[0], factor), part[1] and part[1] * (known or 0)

    def require(self, expr: Expr, width: int) -> bool:
        """Whether `expr` is a multiple of `width`, if need be by requiring it of parameters: of the
        sum of those that one index is multiplied by, and of a number beside them, as rows of a join
        have a sum of two sizes, and padded ones a size and what it is padded by.
        """
        factors: dict[Expr, Expr] = {}
        for monomial, coefficient in polynomial(_congruent(expr, width)).items():
            term = expression({monomial: coefficient})
            if integers.divides(width, term, self._facts):
                continue
            held = [factor for factor in monomial if self._is_parameter(factor)]
            inside = [f for f in monomial if isinstance(f, Apply) and f.op == "mod"]
            if not held and any(
                self.require(f.args[0], width) and self.require(f.args[1], width) for f in inside
            ):
                continue
            index = integers.mul(*(factor for factor in monomial if factor not in held))
            product = integers.mul(*held, coefficient)
            factors[index] = integers.add(factors.get(index, integers.ZERO), product)
        if any((integers.constant(factor) or 0) % width for factor in factors.values()):
            return False
        self.requirements |= dict.fromkeys((factor, width) for factor in factors.values())
        return True

    def _is_parameter(self, expr: Expr) -> bool:
        """Whether a launch knows its value: a size or stride, or what is computed of such alone."""
        if isinstance(expr, Symbol):
            return expr.name in self._parameters and expr.dtype is DataType.Index
        inside = expr.args
        return bool(inside) and all(isinstance(e, Const) or self._is_parameter(e) for e in inside)


def _congruent(expr: Expr, width: int) -> Expr:
    """An expression with the same rest by `width`: `a % b` has that of `a` where it divides `b`."""
    terms = []
    for monomial, coefficient in polynomial(expr).items():
        factors = [
            _congruent(f.args[0], width)
            if isinstance(f, Apply) and f.op == "mod" and integers.divides(width, f.args[1])
            else f
            for f in monomial
        ]
        terms.append(integers.mul(coefficient, *factors))
    return integers.add(*terms)
