"""Loops as a layout deals them out to threads and their registers."""

from __future__ import annotations

from warpsmith.ir.tensor import TensorView
from warpsmith.layouts.layout import Layout, Piece, Place
from warpsmith.schedule.transforms import merge, reorder, split

THREADS = (Place.WARP, Place.LANE)


def hold_as(tensor: TensorView, position: int, layout: Layout) -> None:
    """Split the loops from `position` on, one for each dimension of the layout, of its extents.

    They become one loop over the threads, warps before lanes, and one for each digit that goes
    along a thread's registers, the nearest last.
    """
    digits: list[Piece] = []
    for dim in reversed(range(len(layout.shape))):
        digits = _split(tensor, position + dim, layout, dim) + digits
    order = sorted(range(len(digits)), key=lambda place: _rank(digits[place]))
    reorder(tensor, {position + old: position + new for new, old in enumerate(order)})
    for _ in [piece for piece in digits if piece.place in THREADS][1:]:
        merge(tensor, position)


def _split(tensor: TensorView, position: int, layout: Layout, dim: int) -> list[Piece]:
    """One loop for each digit of a dimension, the slowest first; the digits."""
    digits = [piece for piece in layout.pieces if piece.dim == dim][::-1]
    for number, digit in enumerate(digits[:-1]):
        split(tensor, position + number, digit.step)
    return digits


def _rank(piece: Piece) -> tuple[int, int]:
    """Where a digit's loop stands: warps, lanes, registers, each from the farthest to the next."""
    return [*THREADS, Place.REGISTER].index(piece.place), -piece.stride
