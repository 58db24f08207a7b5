"""Layouts made of layouts: one after the other, the other way round, and from one to another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from math import prod

from warpsmith.errors import InternalError
from warpsmith.layouts.layout import Layout, Piece, Place, row_major_strides

HELD = (Place.WARP, Place.LANE, Place.REGISTER)
"""Where registers are: the dimensions of a tensor as threads hold it, in this order."""

LANES, REGISTERS = HELD.index(Place.LANE), HELD.index(Place.REGISTER)


def grouped(layout: Layout, counts: tuple[int, ...]) -> Layout:
    """The layout of the same elements with so many dimensions each counted as one, the last one of
    them the fastest.
    """
    firsts = [sum(counts[:place]) for place in range(len(counts))]
    parts = [layout.shape[f : f + count] for f, count in zip(firsts, counts, strict=True)]
    into = [(dim, far) for dim, part in enumerate(parts) for far in row_major_strides(part)]
    pieces = [
        piece
        if piece.dim is None
        else replace(piece, dim=into[piece.dim][0], step=piece.step * into[piece.dim][1])
        for piece in layout.pieces
    ]
    return Layout(tuple(map(prod, parts)), tuple(pieces))


def flat(layout: Layout) -> Layout:
    """The layout of the same elements, counted along one dimension, the last one the fastest."""
    return grouped(layout, (len(layout.shape),))


def counted(layout: Layout, strides: Mapping[Place, int]) -> Layout:
    """Where the same elements live along some places, counted together as one address."""
    return Layout(
        layout.shape,
        tuple(
            replace(piece, place=Place.ADDRESS, stride=piece.stride * strides.get(piece.place, 0))
            for piece in layout.pieces
            if piece.dim is not None
        ),
    )


def inverse(layout: Layout, places: tuple[Place, ...] = HELD) -> Layout:
    """Which element lives where: a layout over places, whose place is the element.

    Raises:
        InternalError: a place with gaps, or with two elements in one place.
    """
    inner = row_major_strides(layout.shape)
    loose = [place.value for place in places if not layout.is_packed(place)]
    if loose or any(p.stride and p.place not in places for p in layout.pieces):
        raise InternalError(f"{layout} does not count through {loose or places}: no inverse")
    pieces = [
        Piece(
            places.index(piece.place),
            piece.size,
            piece.stride,
            Place.ELEMENT,
            0 if piece.dim is None else piece.step * inner[piece.dim],
        )
        for piece in layout.pieces
        if piece.stride
    ]
    return Layout(tuple(layout.extent(place) for place in places), tuple(pieces))


def composed(outer: Layout, inner: Layout) -> Layout | None:
    """Where `outer` keeps the element that `inner` names, over the coordinates of `inner`.

    Every digit of `inner` must be digits of `outer`, or parts of them: sizes divide each other.
    None where they do not.
    """
    digits = flat(outer)
    walked = inner.along(Place.ELEMENT)
    if any(far.stride < near.stride * near.size for near, far in pairwise(walked)):
        return None
    pieces = [piece for piece in digits.pieces if piece.dim is None]
    for piece in inner.pieces:
        found = _through(piece, digits)
        if found is None:
            return None
        pieces += found
    return Layout(inner.shape, tuple(pieces))


def _through(piece: Piece, digits: Layout) -> list[Piece] | None:
    """A digit that names elements as digits that name their places; None if it is no such."""
    if piece.stride == 0:
        return [piece]
    left, step, at = piece.size, piece.step, piece.stride
    found: list[Piece] = []
    for digit in digits.pieces:
        end = digit.step * digit.size
        if digit.dim is None or at >= end or left == 1:
            continue
        if at % digit.step or end % at:
            return None
        taken = min(left, end // at)
        if left % taken:
            return None
        stride = digit.stride * (at // digit.step)
        found.append(Piece(piece.dim, taken, step, digit.place, stride))
        left, step, at = left // taken, step * taken, at * taken
    return found if left == 1 else None


def conversion(held: Layout, wanted: Layout) -> Layout | None:
    """From each warp, lane and register of one layout to where the other keeps that element.

    None where the digits of one are no digits of the other.
    """
    return composed(wanted, inverse(held))
