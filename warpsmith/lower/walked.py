"""Index expressions as layouts, and layouts as index expressions."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.ir import integers
from warpsmith.ir.scalar import Expr, Symbol
from warpsmith.layouts.layout import Layout
from warpsmith.lower.boxes import length, steps_of


def layout_of(index: Expr, lanes: Sequence[Symbol]) -> Layout | None:
    """Where the iterations of loops lie, counted from the first; None if they do not lie evenly."""
    found = steps_of(index, list(lanes))
    if found is None or any(step < 0 for step in found.values()):
        return None
    return Layout.strided(tuple(map(length, lanes)), tuple(found.get(lane, 0) for lane in lanes))


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
