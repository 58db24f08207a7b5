"""Index arithmetic that simplifies as it is built.

Every sum is kept as a polynomial (`ir/polynomials.py`). Division and remainder take whole multiples
of the divisor out of it. The rules are listed where they stand; each is an identity on non-negative
integers.
"""

from __future__ import annotations

import math

from warpsmith.ir.bounds import lower_bound, upper_bound
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.polynomials import (
    Monomial,
    Polynomial,
    divided,
    expression,
    multiplied,
    polynomial,
    summed,
    times,
)
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol

Facts = frozenset[tuple[Expr, int]]
"""Pairs (expression, divisor): the expression is a multiple of the divisor."""

ZERO = Const(0)
ONE = Const(1)
TRUE = Const(True, DataType.Bool)
FALSE = Const(False, DataType.Bool)


def index(value: Expr | int) -> Expr:
    """An `int` as a constant of the index type, and another integer as a number of that type."""
    if isinstance(value, int):
        return Const(value)
    other = value.dtype.is_int and value.dtype is not DataType.Index
    return Apply("cast", (value,), DataType.Index) if other else value


def constant(expr: Expr) -> int | None:
    """The value of a constant expression, or None."""
    return int(expr.value) if isinstance(expr, Const) else None


def add(*terms: Expr | int) -> Expr:
    return expression(_rejoin(summed(polynomial(index(term)) for term in terms)))


def sub(a: Expr | int, b: Expr | int) -> Expr:
    return add(a, mul(b, -1))


def mul(*factors: Expr | int) -> Expr:
    return expression(_rejoin(multiplied(polynomial(index(factor)) for factor in factors)))


def _rejoin(poly: Polynomial) -> Polynomial:
    """Rule: `c * d * (x / d) + c * (x % d) = c * x`, for constant and symbolic `d`."""
    if len(poly) == 1:
        return poly
    for monomial, coefficient in poly.items():
        for position, factor in enumerate(monomial):
            if not (isinstance(factor, Apply) and factor.op == "mod"):
                continue
            x, d = factor.args
            others = monomial[:position] + monomial[position + 1 :]
            scale: Polynomial = {others: coefficient}
            whole = times(times(scale, polynomial(d)), polynomial(floordiv(x, d)))
            if whole and all(poly.get(m) == c for m, c in whole.items()):
                rest = {m: c for m, c in poly.items() if m not in whole and m != monomial}
                for m, c in times(scale, polynomial(x)).items():
                    rest[m] = rest.get(m, 0) + c
                return _rejoin({m: c for m, c in rest.items() if c})
    return poly


def floordiv(a: Expr | int, b: Expr | int) -> Expr:
    """Floor of `a / b`.

    Rules: `x/1`, constants, `(d*q + r)/d = q + r/d`, `r/d = 0` where `r < d`, `(x/a)/b = x/ab`, and
    `(g*x + r)/(g*d) = (g*x)/(g*d)` where `r < g`, so that lanes of a vector share a quotient.
    """
    a, b = index(a), index(b)
    if b == ONE or a == ZERO:
        return a
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(int(a.value) // int(b.value))
    if a == b:
        return ONE
    quotient, rest = divided(polynomial(a), b)
    if quotient:
        remainder = expression(rest)
        if lower_bound(remainder) >= 0 and lower_bound(expression(quotient)) >= 0:
            return add(expression(quotient), floordiv(remainder, b))
    if provably_less(a, b):
        return ZERO
    if isinstance(a, Apply) and a.op == "floordiv":
        return floordiv(a.args[0], mul(a.args[1], b))
    if (parts := _below_a_step(a, b)) is not None:
        return floordiv(parts[0], b)
    return Apply("floordiv", (a, b), DataType.Index)


def mod(a: Expr | int, b: Expr | int) -> Expr:
    """Rules: `x%1 = 0`, constants, `(d*q + r)%d = r%d`, `r%d = r` where `r < d`, and
    `(g*x + r)%(g*d) = (g*x)%(g*d) + r` where `r < g`.
    """
    a, b = index(a), index(b)
    if b == ONE or a in (ZERO, b):
        return ZERO
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(int(a.value) % int(b.value))
    quotient, rest = divided(polynomial(a), b)
    if quotient:
        remainder = expression(rest)
        if lower_bound(remainder) >= 0 and lower_bound(expression(quotient)) >= 0:
            return mod(remainder, b)
    if provably_less(a, b):
        return a
    if (parts := _below_a_step(a, b)) is not None:
        return add(mod(parts[0], b), parts[1])
    return Apply("mod", (a, b), DataType.Index)


def parted(a: Expr, d: int) -> tuple[Expr, Expr]:
    """`a` as a multiple of `d` and a rest from 0 to below it; 0 and `a` where none is known."""
    quotient, rest = divided(polynomial(a), Const(d))
    remainder = expression(rest)
    if quotient and lower_bound(remainder) >= 0 and provably_less(remainder, Const(d)):
        return mul(expression(quotient), d), remainder
    return ZERO, a


def _below_a_step(a: Expr, b: Expr) -> tuple[Expr, Expr] | None:
    """`a` as a multiple of a step, of which a constant `b` is one too, and a rest below that."""
    step, terms = constant(b), polynomial(a)
    if step is None or len(terms) < 2:
        return None
    ordered = sorted(terms.items(), key=lambda term: -abs(term[1]))
    for count in range(1, len(ordered)):
        step = math.gcd(step, ordered[count - 1][1])
        if step == 1:
            return None
        whole, rest = (expression(dict(part)) for part in (ordered[:count], ordered[count:]))
        if upper_bound(rest) < step and min(map(lower_bound, (whole, rest))) >= 0:
            return whole, rest
    return None


def ceildiv(a: Expr | int, b: Expr | int) -> Expr:
    a, b = index(a), index(b)
    if b == ONE:
        return a
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(-(-int(a.value) // int(b.value)))
    if a == b:
        return ONE
    quotient, rest = divided(polynomial(a), b)
    if quotient and not rest:
        return expression(quotient)
    return Apply("ceildiv", (a, b), DataType.Index)


def minimum(a: Expr | int, b: Expr | int) -> Expr:
    return _pick("minimum", index(a), index(b))


def maximum(a: Expr | int, b: Expr | int) -> Expr:
    return _pick("maximum", index(a), index(b))


def _pick(op: str, a: Expr, b: Expr) -> Expr:
    if a == b:
        return a
    if isinstance(a, Const) and isinstance(b, Const):
        chosen = min if op == "minimum" else max
        return Const(chosen(int(a.value), int(b.value)))
    return Apply(op, (a, b), DataType.Index)


def less(a: Expr | int, b: Expr | int) -> Expr:
    """The predicate `a < b`, or TRUE where that is provable."""
    a, b = index(a), index(b)
    if provably_less(a, b):
        return TRUE
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(bool(a.value < b.value), DataType.Bool)
    return Apply("lt", (a, b), DataType.Bool)


def sides(condition: Expr) -> tuple[Expr, Expr] | None:
    """`a` and `b` of the predicate `a < b`; None for any other."""
    if isinstance(condition, Apply) and condition.op == "lt":
        a, b = condition.args
        return a, b
    return None


def negated(condition: Expr) -> Expr:
    """Of `a < b`, `b < a + 1`."""
    assert isinstance(condition, Apply)
    a, b = condition.args
    return less(b, add(a, 1))


def of_whole(condition: Expr, facts: Facts) -> Expr:
    """The predicate without what cannot change it: `d*q + r < b` is `d*q < b` where `r < d`, and
    `b` is a multiple of `d`, for the largest `d` that is known.
    """
    if not (isinstance(condition, Apply) and condition.op == "lt"):
        return condition
    a, b = condition.args
    for divisor in sorted((d for whole, d in facts if whole == b and d > 1), reverse=True):
        terms = polynomial(a)
        rest = {m: c for m, c in terms.items() if c % divisor}
        within = lower_bound(expression(rest)) >= 0
        if rest and within and provably_less(expression(rest), Const(divisor)):
            return less(expression({m: c for m, c in terms.items() if m not in rest}), b)
    return condition


def conjunction(*conditions: Expr) -> Expr:
    """All of the conditions; repeated ones count once, in the order given."""
    distinct: dict[Expr, None] = {}
    for condition in conditions:
        distinct.update(dict.fromkeys(conjuncts(condition)))
    if not distinct:
        return TRUE
    result, *others = distinct
    for condition in others:
        result = Apply("logical_and", (result, condition), DataType.Bool)
    return result


def conjuncts(condition: Expr) -> tuple[Expr, ...]:
    """The conditions that a conjunction joins; none for TRUE."""
    if condition == TRUE:
        return ()
    if isinstance(condition, Apply) and condition.op == "logical_and":
        return tuple(c for arg in condition.args for c in conjuncts(arg))
    return (condition,)


def provably_less(a: Expr, b: Expr) -> bool:
    """Whether `a < b` holds for every value of the symbols.

    Beyond constant bounds it knows `v < extent(v)`, `x % d < d`, `i * d < n` where `i < ceildiv(n,
    d)`, and mixed radix: `i * d + j < e * d` where `i < e` and `0 <= j < d`.
    """
    if lower_bound(b) > upper_bound(a):
        return True
    extent = a.extent if isinstance(a, Symbol) else None
    if extent is not None and (extent == b or provably_less(extent, b)):
        return True
    if isinstance(a, Apply) and a.op == "mod" and a.args[1] == b:
        return True
    if isinstance(a, Apply) and a.op == "add":
        return _mixed_radix_less(a, b)
    if isinstance(a, Apply) and a.op == "mul":
        factor, *rest = a.args
        extent = factor.extent if isinstance(factor, Symbol) else None
        if len(rest) == 1 and extent == Apply("ceildiv", (b, rest[0]), DataType.Index):
            return lower_bound(rest[0]) >= 1
        return _mixed_radix_less(a, b)
    return False


def _mixed_radix_less(a: Expr, b: Expr) -> bool:
    """Peel `i` off `a = i * d + j` with `b = extent(i) * d` and `j < d`."""
    poly, whole = polynomial(a), polynomial(b)
    for monomial, coefficient in poly.items():
        for factor in monomial:
            if not (isinstance(factor, Symbol) and factor.extent is not None):
                continue
            others = list(monomial)
            others.remove(factor)
            step = {tuple(others): coefficient}
            product = _rejoin(times(step, polynomial(factor.extent)))
            if product != whole or expression(product) != b:  # seldom equal, quickly compared
                continue
            radix = expression(step)
            rest = expression({m: c for m, c in poly.items() if m != monomial})
            if rest == ZERO or (lower_bound(rest) >= 0 and provably_less(rest, radix)):
                return True
    return False


def divides(d: Expr | int, a: Expr | int, facts: Facts = frozenset()) -> bool:
    """Whether `a` is provably a multiple of `d`."""
    d, a = index(d), index(a)
    if d == ONE or a == ZERO:
        return True
    if isinstance(a, Const) and isinstance(d, Const):
        return int(a.value) % int(d.value) == 0
    quotient, rest = divided(polynomial(a), d)
    if quotient and not rest:
        return True
    wanted = constant(d)
    if not wanted:
        return False
    return all(
        c % wanted == 0 or _monomial_divisible(m, c, wanted, facts)
        for m, c in polynomial(a).items()
    )


def _monomial_divisible(monomial: Monomial, coefficient: int, d: int, facts: Facts) -> bool:
    """`d` divides a product when the divisors known of its factors multiply to a multiple of it."""
    known = coefficient
    for factor in monomial:
        known *= math.lcm(*(divisor for fact, divisor in facts if fact == factor), 1)
    if known % d == 0:
        return True
    for fact, divisor in facts:
        parts = polynomial(fact)
        whole = parts.get(monomial)
        if len(parts) != 1 or not whole or coefficient % whole:
            continue
        if coefficient // whole * divisor % d == 0:
            return True
    return False
