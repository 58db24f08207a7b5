"""`Layout`: where each element of a tensor lives, as one frozen value of any shape."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from itertools import pairwise, product
from math import prod

from warpsmith.errors import InternalError
from warpsmith.values import dataclass


class Place(Enum):
    """What a layout counts along.

    A register is an element that a thread holds: narrow ones share 32 bits with their neighbours.
    A lane is one of a warp's 32 threads, a warp one of those that hold the tensor together. An
    address counts elements of memory. An element is a place in the order of another shape, its
    last dimension the fastest.
    """

    WARP = "warp"
    LANE = "lane"
    REGISTER = "register"
    ADDRESS = "address"
    ELEMENT = "element"

    # It is looked up for every digit of a coordinate, and Enum's own hash is a Python function.
    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class Piece:
    """One digit of a coordinate, and how far it moves an element along one place.

    The digit is `coordinate // step % size` of dimension `dim`; it adds `stride` times itself to
    `place`. Without a dimension it is a replica: the element lives in all `size` places.
    """

    dim: int | None
    size: int
    step: int
    place: Place
    stride: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each element of a tensor of some shape lives.

    The digits of each dimension are its coordinate, taken apart; sizes may be any numbers. Pieces
    are kept in one normal form, so layouts that say the same of every element are equal. Nothing
    is swizzled: what permutes the bytes of shared memory stands outside (`Swizzle`).

    Example:
        A 2 x 3 tensor in rows of 4 elements: `Layout.strided((2, 3), (4, 1))`. Its element (1, 2)
        lives at `{Place.ADDRESS: 6}`.

    Raises:
        InternalError: digits that are not exactly a dimension, or replicas that overlap.
    """

    shape: tuple[int, ...]
    pieces: tuple[Piece, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "pieces", _normal(self.shape, self.pieces))

    @staticmethod
    def strided(
        shape: tuple[int, ...], strides: tuple[int, ...], place: Place = Place.ADDRESS
    ) -> Layout:
        """A layout with one distance between neighbours of each dimension."""
        dims = enumerate(zip(shape, strides, strict=True))
        return Layout(shape, tuple(Piece(dim, size, 1, place, far) for dim, (size, far) in dims))

    @staticmethod
    def row_major(shape: tuple[int, ...], place: Place = Place.ADDRESS) -> Layout:
        """A layout without gaps, the last dimension the fastest."""
        return Layout.strided(shape, row_major_strides(shape), place)

    def at(self, *coordinates: int) -> dict[Place, int]:
        """Where an element lives; of its replicas, the first."""
        found = dict.fromkeys((piece.place for piece in self.pieces), 0)
        for piece in self.pieces:
            if piece.dim is not None:
                digit = coordinates[piece.dim] // piece.step % piece.size
                found[piece.place] += digit * piece.stride
        return found

    def everywhere(self, *coordinates: int) -> tuple[dict[Place, int], ...]:
        """Where all replicas of an element live."""
        copies = [piece for piece in self.pieces if piece.dim is None]
        found = []
        for digits in product(*(range(piece.size) for piece in copies)):
            place = self.at(*coordinates)
            for piece, digit in zip(copies, digits, strict=True):
                place[piece.place] += digit * piece.stride
            found.append(place)
        return tuple(found)

    def along(self, place: Place) -> tuple[Piece, ...]:
        """The pieces that move an element along a place, the shortest stride first."""
        found = [piece for piece in self.pieces if piece.place is place and piece.stride]
        return tuple(sorted(found, key=lambda piece: piece.stride))

    def extent(self, place: Place) -> int:
        """One more than the farthest that an element lives along a place."""
        return 1 + sum((piece.size - 1) * piece.stride for piece in self.along(place))

    def is_packed(self, place: Place) -> bool:
        """Whether the pieces along a place count through it: no gap, and nothing twice."""
        expected = 1
        for piece in self.along(place):
            if piece.stride != expected:
                return False
            expected *= piece.size
        return True

    def stride(self, dim: int, step: int, size: int) -> int | None:
        """How far the digit of `size` steps of `step` moves along its place; None if unevenly."""
        if size == 1:
            return 0
        for piece in self.pieces:
            within = piece.step * piece.size % (step * size) == 0 and step % piece.step == 0
            if piece.dim == dim and within:
                return piece.stride * (step // piece.step)
        return None


def row_major_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Elements between neighbours of each dimension where the last one is the fastest."""
    return tuple(prod(shape[dim + 1 :]) for dim in range(len(shape)))


def _normal(shape: tuple[int, ...], pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """The fewest pieces that say the same, in order of dimension and step, replicas last."""
    kept = [piece for piece in pieces if piece.size != 1]
    found: list[Piece] = []
    for dim, extent in enumerate(shape):
        digits = sorted((p for p in kept if p.dim == dim), key=lambda p: p.step)
        _check_digits(dim, extent, digits)
        found += _joined([_placeless(piece) for piece in digits])
    order = list(Place)
    copies = sorted(
        (p for p in kept if p.dim is None), key=lambda p: (order.index(p.place), p.stride)
    )
    for near, far in pairwise(copies):
        if near.place is far.place and far.stride < near.stride * near.size:
            raise InternalError(f"replicas {near} and {far} of a layout overlap")
    if any(p.dim is not None and p.dim >= len(shape) for p in kept):
        raise InternalError(f"pieces {kept} of a layout name dimensions beyond {shape}")
    return (*found, *_joined([Piece(None, p.size, 1, p.place, p.stride) for p in copies]))


def _check_digits(dim: int, extent: int, digits: list[Piece]) -> None:
    step = 1
    for piece in digits:
        if piece.step != step or piece.stride < 0:
            raise InternalError(f"dimension {dim} of a layout has the digits {digits}")
        step *= piece.size
    if step != extent:
        raise InternalError(f"dimension {dim} of a layout has {extent} indices and digits {digits}")


def _placeless(piece: Piece) -> Piece:
    """A digit that moves nothing, along the one place that stands for all."""
    return piece if piece.stride else Piece(piece.dim, piece.size, piece.step, Place.ADDRESS, 0)


def _joined(pieces: list[Piece]) -> list[Piece]:
    """Neighbours that count on along one place, as one."""
    found: list[Piece] = []
    for piece in pieces:
        last = found[-1] if found else None
        if (
            last is not None
            and last.place is piece.place
            and piece.stride == last.stride * last.size
        ):
            found[-1] = Piece(last.dim, last.size * piece.size, last.step, last.place, last.stride)
        else:
            found.append(piece)
    return found
