"""Which word of which block of random bits a loop draws, where its element's place is known.

A block of Philox gives four words. Written as a quotient and a remainder of the place by 4, four
adjacent elements of an unrolled loop say the same block, and the compiler computes it once.
"""

from __future__ import annotations

import math

from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Iota, Move, Pointwise
from warpsmith.ir.integers import Facts
from warpsmith.ir.scalar import Apply, Const, Expr
from warpsmith.ir.tensor import TensorView
from warpsmith.lower.access import Access

WORDS = 4


def drawn(operation: Pointwise, access: Access, rest: tuple[Expr, ...], facts: Facts) -> Expr:
    """The number that `philox` gives for an index that counts places.

    Args:
        rest: seed and offset.
    """
    places = _places(operation)
    assert places is not None
    block, word = divided(access.axis(places.output.logical[0]), WORDS, facts)
    number = tuple(Apply("cast", (part,), DataType.Int) for part in (block, word))
    return Apply("philox_word", (*number, *rest), operation.output.dtype)


def counts_places(operation: Pointwise) -> bool:
    """Whether the operation draws by the places of elements, which loops know."""
    return operation.op == "philox" and _places(operation) is not None


def _places(operation: Pointwise) -> Iota | None:
    """The count from 0 on, moved at most, that is the index of `philox`."""
    source = operation.inputs[0]
    while isinstance(source, TensorView) and isinstance(source.definition, Move):
        source = source.definition.source
    made = source.definition if isinstance(source, TensorView) else None
    if not isinstance(made, Iota):
        return None
    counts = (made.start, made.step) == (Const(0, made.start.dtype), Const(1, made.step.dtype))
    return made if counts else None


def divided(number: Expr, by: int, facts: Facts) -> tuple[Expr, Expr]:
    """Quotient and remainder of what is not negative, by what is known to divide some factors.

    A product is taken out whole where one of its factors is known to be a multiple of what is
    missing: `n * b + 8 * t + i`, divided by 4, is `n / 4 * b + 2 * t + i / 4` where 4 divides n.
    """
    quotient: list[Expr] = []
    left: list[Expr] = []
    for monomial, coefficient in integers.polynomial(number).items():
        missing = by // math.gcd(by, coefficient)
        known = next((f for f in monomial if integers.divides(missing, f, facts)), None)
        if missing == 1:
            quotient.append(integers.mul(coefficient // by, *monomial))
        elif known is None:
            left.append(integers.mul(coefficient, *monomial))
        else:
            others = list(monomial)
            others.remove(known)
            part = integers.floordiv(known, missing)
            quotient.append(integers.mul(coefficient * missing // by, part, *others))
    rest = integers.add(*left)
    if integers.lower_bound(rest) < 0 or integers.lower_bound(integers.add(*quotient)) < 0:
        return integers.floordiv(number, by), integers.mod(number, by)
    whole = integers.add(*quotient, integers.floordiv(rest, by))
    return whole, integers.mod(rest, by)
