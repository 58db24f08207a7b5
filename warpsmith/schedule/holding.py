"""Loops as a layout deals them out to threads and their registers."""

from __future__ import annotations

from warpsmith.ir.tensor import TensorView
from warpsmith.layouts.layout import Layout, Piece, Place
from warpsmith.schedule.transforms import merge, reorder, split

THREADS = (Place.WARP, Place.LANE)


def hold_as(tensor: TensorView, position: int, layout: Layout, apart: int = 1) -> None:
    """Split the loops from `position` on, one for each dimension of the layout, of its extents.

    They become one loop over the threads, warps before lanes, and one for each digit that goes
    along a thread's registers, the nearest last. Where neighbouring lanes are to be `apart`, so
    many of them are a second loop behind that of the threads.
    """
    digits: list[Piece] = []
    for dim in reversed(range(len(layout.shape))):
        digits = _split(tensor, position + dim, layout, dim) + digits
    order = sorted(range(len(digits)), key=lambda place: _rank(digits[place]))
    reorder(tensor, {position + old: position + new for new, old in enumerate(order)})
    threads = [piece for piece in digits if piece.place in THREADS]
    near = [piece for piece in threads if piece.place is Place.LANE and piece.stride < apart]
    for _ in range(len(threads) - len(near) - 1):
        merge(tensor, position)
    for _ in near[1:] if len(near) < len(threads) else ():
        merge(tensor, position + 1)


def _split(tensor: TensorView, position: int, layout: Layout, dim: int) -> list[Piece]:
    """One loop for each digit of a dimension, the slowest first; the digits."""
    digits = [piece for piece in layout.pieces if piece.dim == dim][::-1]
    for number, digit in enumerate(digits[:-1]):
        split(tensor, position + number, digit.step)
    return digits


def _rank(piece: Piece) -> tuple[int, int]:
    """Where a digit's loop stands: warps, lanes, registers, each from the farthest to the next."""
    return [*THREADS, Place.REGISTER].index(piece.place), -piece.stride
