"""Index expressions as layouts, and layouts as index expressions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

from warpsmith.ir import integers
from warpsmith.ir.polynomials import polynomial
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.substitution import substitute
from warpsmith.layouts.layout import Layout, Piece, Place
from warpsmith.lower.boxes import length, steps_of


def layout_of(index: Expr, lanes: Sequence[Symbol]) -> Layout | None:
    """Where the iterations of loops lie, counted from the first.

    None where they do not lie evenly, nor do the digits that quotients and remainders take them
    apart into.
    """
    digits = [_digits(index, lane) for lane in lanes]
    parts: dict[Expr, Expr] = {
        lane: integers.add(*(integers.mul(digit, step) for digit, step in own))
        for lane, own in zip(lanes, digits, strict=True)
    }
    apart = substitute(index, parts)
    found = steps_of(apart, [digit for own in digits for digit, _ in own])
    if found is None or any(step < 0 for step in found.values()):
        return None
    pieces = [
        Piece(dim, length(digit), step, Place.ADDRESS, found.get(digit, 0))
        for dim, own in enumerate(digits)
        for digit, step in own
    ]
    return Layout(tuple(map(length, lanes)), tuple(pieces))


def _digits(index: Expr, lane: Symbol) -> list[tuple[Symbol, int]]:
    """The digits of a loop that an index tells apart, each with the iterations of one step."""
    extent = length(lane)
    bounds = [1, *sorted({b for b in _bounds(index, lane) if 1 < b < extent}), extent]
    if any(far % near for near, far in pairwise(bounds)):
        bounds = [1, extent]
    if len(bounds) == 2:
        return [(lane, 1)]
    return [
        (Symbol(f"{lane.name}_{near}", low=0, extent=Const(far // near)), near)
        for near, far in pairwise(bounds)
    ]


def _bounds(index: Expr, lane: Symbol) -> Iterator[int]:
    """Iterations of a loop after which a quotient steps, or a remainder begins anew."""
    for node in index.walk():
        divisor = _divisor(node)
        if divisor:
            assert isinstance(node, Apply)
            steps = (divisor / each for each in _steps(node.args[0], lane) if each)
            yield from (step.numerator for step in steps if step.denominator == 1)


def _steps(expr: Expr, lane: Symbol) -> set[Fraction]:
    """By how much an expression grows with an iteration of a loop, where no digit ends."""
    if expr == lane:
        return {Fraction(1)}
    divisor = _divisor(expr)
    if divisor:
        assert isinstance(expr, Apply)
        inner = _steps(expr.args[0], lane)
        return {each / divisor for each in inner} if expr.op == "floordiv" else inner
    terms = polynomial(expr).items()
    return {
        coefficient * each
        for monomial, coefficient in terms
        if len(monomial) == 1 and monomial != (expr,)
        for each in _steps(monomial[0], lane)
    }


def _divisor(expr: Expr) -> int:
    """The constant of a quotient or a remainder; 0 for other expressions."""
    if not isinstance(expr, Apply) or expr.op not in ("floordiv", "mod"):
        return 0
    return integers.constant(expr.args[1]) or 0


def index_of(layout: Layout, *coordinates: Expr) -> Expr:
    """Where an element lives, of a layout along one place; of its replicas the first."""
    digits = [piece for piece in layout.pieces if piece.dim is not None and piece.stride]
    assert len({piece.place for piece in digits}) <= 1, f"{layout} is along several places"
    found: Expr = integers.ZERO
    for piece in digits:
        coordinate = coordinates[piece.dim or 0]
        digit = integers.mod(integers.floordiv(coordinate, piece.step), piece.size)
        found = integers.add(found, integers.mul(digit, piece.stride))
    return found
