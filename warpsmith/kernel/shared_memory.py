"""Where the buffers of a block lie in its shared memory."""

from __future__ import annotations

from collections.abc import Mapping

from warpsmith.ir import integers
from warpsmith.ir.scalar import Expr, evaluate
from warpsmith.kernel.nodes import Buffer
from warpsmith.values import dataclass

UNIT = 16
"""Bytes that every buffer's start, and the whole, are a multiple of."""


@dataclass(frozen=True, slots=True)
class SharedPlace:
    """A shared buffer and the byte at which it starts."""

    buffer: Buffer
    start: Expr

    @property
    def bytes(self) -> Expr:
        """That the buffer takes."""
        return bytes_of(self.buffer)


@dataclass(frozen=True, slots=True)
class SharedLayout:
    """All shared memory of a block; expressions are over the launch's scalars.

    Attributes:
        places: of every shared buffer, in the order in which they are declared in device code.
        bytes: of the whole.
        least: of the whole, as far as no call decides.
        alignment: bytes that the address of the whole is a multiple of.
    """

    places: tuple[SharedPlace, ...] = ()
    bytes: Expr = integers.ZERO
    least: int = 0
    alignment: int = UNIT

    def starts(self, known: Mapping[str, int]) -> dict[str, int]:
        """The byte at which each buffer starts, by name, where scalars have these values."""
        values = dict(known)
        return {place.buffer.name: evaluate(place.start, values) for place in self.places}

    def total(self, known: Mapping[str, int]) -> int:
        """Bytes of the whole, where scalars have these values."""
        return evaluate(self.bytes, dict(known))


def bytes_of(buffer: Buffer) -> Expr:
    """Bytes of a buffer."""
    return integers.mul(buffer.size, buffer.dtype.size)


def laid_out(buffers: tuple[Buffer, ...], given: Mapping[str, int] | None = None) -> SharedLayout:
    """Buffers at the offsets that are given, then the others, the most aligned first.

    Args:
        given: bytes at which some buffers of constant size start, by name; they may overlap.
    """
    given = given or {}
    places = [SharedPlace(b, integers.index(given[b.name])) for b in buffers if b.name in given]
    ends = (integers.constant(integers.add(place.start, place.bytes)) for place in places)
    end: Expr = integers.index(max((each or 0 for each in ends), default=0))
    rest = [buffer for buffer in buffers if buffer.name not in given]
    for buffer in sorted(rest, key=lambda each: -each.alignment):
        start = _aligned(end, max(buffer.alignment, UNIT))
        places.append(SharedPlace(buffer, start))
        end = integers.add(start, bytes_of(buffer))
    total = _aligned(end, UNIT)
    least = integers.constant(total)
    if least is None:
        least = laid_out(tuple(b for b in buffers if _is_known(b)), given).least
    alignment = max((buffer.alignment for buffer in buffers), default=UNIT)
    return SharedLayout(tuple(places), total, least, max(alignment, UNIT))


def _is_known(buffer: Buffer) -> bool:
    return integers.constant(buffer.size) is not None


def _aligned(offset: Expr, to: int) -> Expr:
    return integers.mul(integers.ceildiv(offset, to), to)
