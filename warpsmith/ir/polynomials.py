"""Sums of products of index expressions, as polynomials.

A polynomial is a map from a monomial (a sorted tuple of non-constant factors) to its integer
coefficient, which nobody changes once it is made.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr

Monomial = tuple[Expr, ...]
Polynomial = dict[Monomial, int]

_UNIT: Polynomial = {(): 1}


def polynomial(expr: Expr) -> Polynomial:
    """The sum of monomials that `expr` is."""
    if isinstance(expr, Const):
        return {(): int(expr.value)} if expr.value else {}
    if isinstance(expr, Apply) and expr.op in ("add", "mul"):
        if expr.polynomial is None:
            parts = map(polynomial, expr.args)
            expr.polynomial = summed(parts) if expr.op == "add" else multiplied(parts)
        return expr.polynomial
    return {(expr,): 1}


def summed(terms: Iterable[Polynomial]) -> Polynomial:
    """The sum of sums."""
    total: Polynomial = {}
    for term in terms:
        for monomial, coefficient in term.items():
            total[monomial] = total.get(monomial, 0) + coefficient
    return {m: c for m, c in total.items() if c}


def multiplied(factors: Iterable[Polynomial]) -> Polynomial:
    """The product of sums."""
    return reduce(times, factors, _UNIT)


def times(a: Polynomial, b: Polynomial) -> Polynomial:
    """The product of two sums."""
    if a == _UNIT:
        return b
    if b == _UNIT:
        return a
    total: Polynomial = {}
    for m, c in a.items():
        for n, d in b.items():
            key = tuple(sorted((*m, *n), key=repr)) if m and n else m or n
            total[key] = total.get(key, 0) + c * d
    return {m: c for m, c in total.items() if c}


def expression(poly: Polynomial) -> Expr:
    """The expression of a polynomial: products in the order in which they were met."""
    terms = [_term(monomial, coefficient) for monomial, coefficient in poly.items()]
    if not terms:
        return Const(0)
    if len(terms) == 1:
        return terms[0]
    made = Apply("add", tuple(terms), DataType.Index)
    made.polynomial = poly
    return made


def _term(monomial: Monomial, coefficient: int) -> Expr:
    factors: tuple[Expr, ...] = monomial
    if coefficient != 1 or not monomial:
        factors = (*monomial, Const(coefficient))
    if len(factors) == 1:
        return factors[0]
    made = Apply("mul", factors, DataType.Index)
    made.polynomial = {monomial: coefficient}
    return made


def divided(poly: Polynomial, d: Expr) -> tuple[Polynomial, Polynomial]:
    """`poly = quotient * d + rest`, taking out the monomials that `d` divides."""
    divisor = polynomial(d)
    if len(divisor) != 1:
        return {}, poly
    ((d_factors, d_coefficient),) = divisor.items()
    quotient: Polynomial = {}
    rest: Polynomial = {}
    for monomial, coefficient in poly.items():
        left = list(monomial)
        for factor in d_factors:
            if factor not in left:
                break
            left.remove(factor)
        else:
            if coefficient % d_coefficient == 0:
                quotient[tuple(left)] = coefficient // d_coefficient
                continue
        rest[monomial] = coefficient
    return quotient, rest
