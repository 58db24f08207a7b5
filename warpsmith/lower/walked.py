"""Index expressions as layouts, and layouts as index expressions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from warpsmith.ir import integers
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol, substitute
from warpsmith.layouts.layout import Layout, Piece, Place
from warpsmith.lower.boxes import length, steps_of


def layout_of(index: Expr, lanes: Sequence[Symbol], place: Place = Place.ADDRESS) -> Layout | None:
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
        Piece(dim, length(digit), step, place, found.get(digit, 0))
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
        if not divisor:
            continue
        assert isinstance(node, Apply)
        for monomial, coefficient in integers.polynomial(node.args[0]).items():
            each = _iterations(monomial[0], lane) if len(monomial) == 1 else 0
            if each and divisor % coefficient == 0:
                yield each * (divisor // coefficient)


def _iterations(expr: Expr, lane: Symbol) -> int:
    """Iterations of a loop in which one of its digits counts on; 0 for what is none."""
    if expr == lane:
        return 1
    divisor = _divisor(expr)
    if not divisor:
        return 0
    assert isinstance(expr, Apply)
    return _iterations(expr.args[0], lane) * (divisor if expr.op == "floordiv" else 1)


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
