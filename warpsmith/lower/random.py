"""Which part of which block of random bits a loop draws, where its element's place is known.

Neighbours share a block. Written as a quotient and a remainder of the place by as many as
they are, those of an unrolled loop say the same block, and the compiler computes it once.
"""

from __future__ import annotations

import math

from warpsmith.ir import integers
from warpsmith.ir.bounds import lower_bound
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Iota, Move, Pointwise
from warpsmith.ir.integers import Facts
from warpsmith.ir.polynomials import polynomial
from warpsmith.ir.random_blocks import OF_BLOCK
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.tensor import TensorView, Value
from warpsmith.lower.access import Access

PAIR = 2


_CHOICES = {
    "bitwise_and": lambda mask, shared: mask | shared - 1 == -1,
    "bitwise_or": lambda mask, shared: 0 <= mask < shared,
    "bitwise_xor": lambda mask, shared: 0 <= mask < shared,
}
"""What changes a place to another one of its block, for which masks."""


def drawn(operation: Pointwise, access: Access, rest: tuple[Expr, ...], facts: Facts) -> Expr:
    """What is drawn for an index that counts places.

    Args:
        rest: seed and offset, and before them what else there is.
    """
    shared = OF_BLOCK[operation.op]
    places = _places(operation.inputs[0], shared)
    assert places is not None
    count, choices = places
    block, place = divided(access.axis(count.output.logical[0]), shared, facts)
    chosen: Expr = Apply("cast", (place,), DataType.Int)
    for op, mask in choices:
        chosen = Apply(op, (chosen, mask), DataType.Int)
    number = Apply("cast", (block,), DataType.Int), chosen
    return Apply(f"{operation.op}_word", (*number, *rest), operation.output.dtype)


def counts_places(operation: Pointwise) -> bool:
    """Whether the operation draws by the places of elements, which loops know."""
    shared = OF_BLOCK.get(operation.op)
    return shared is not None and _places(operation.inputs[0], shared) is not None


def _places(index: Value, shared: int) -> tuple[Iota, tuple[tuple[str, Const], ...]] | None:
    """The count from 0 on that an index is, moved at most, and choices inside its blocks."""
    made = index.definition if isinstance(index, TensorView) else None
    if isinstance(made, Move):
        return _places(made.source, shared)
    if isinstance(made, Iota):
        start, step = Const(0, made.start.dtype), Const(1, made.step.dtype)
        return (made, ()) if (made.start, made.step) == (start, step) else None
    if not isinstance(made, Pointwise) or made.op not in _CHOICES:
        return None
    source, mask = made.inputs
    if not isinstance(mask, Const) or not _CHOICES[made.op](int(mask.value), shared):
        return None
    inner = _places(source, shared)
    return inner and (inner[0], (*inner[1], (made.op, mask)))


def divided(number: Expr, by: int, facts: Facts) -> tuple[Expr, Expr]:
    """Quotient and remainder of what is not negative, by what is known to divide some factors.

    A product is taken out whole where one of its factors is known to be a multiple of what is
    missing: `n * b + 8 * t + i`, divided by 4, is `n / 4 * b + 2 * t + i / 4` where 4 divides n.
    Fewer stay together where only their number does: `n * b + 2 * t + i`, i below 2, is
    `(n / 2 * b + t) / 2` where 2 divides n, whatever i is.
    """
    quotient: list[Expr] = []
    left: list[Expr] = []
    for monomial, coefficient in polynomial(number).items():
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
    if lower_bound(rest) < 0 or lower_bound(integers.add(*quotient)) < 0:
        return integers.floordiv(number, by), integers.mod(number, by)
    inside, place = integers.floordiv(rest, by), integers.mod(rest, by)
    some = by // 2
    while some >= PAIR:
        part, lane = divided(rest, some, facts)
        if isinstance(lane, Symbol):  # an index of a loop, below as many
            inside, place = (f(part, by // some) for f in (integers.floordiv, integers.mod))
            place = integers.add(integers.mul(some, place), lane)
            break
        some //= 2
    return integers.add(*quotient, inside), place
