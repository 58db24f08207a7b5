"""`Swizzle`: how bytes of shared memory trade places, so that rows meet other banks."""

from __future__ import annotations

from warpsmith.errors import InternalError
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Swizzle:
    """A permutation of byte addresses by exclusive-or of their bits: its own inverse.

    Attributes:
        pairs: (bit that changes, bit that changes it); no bit is both.

    Example:
        `HARDWARE[128]`: chunk c of 16 bytes in line i of 128 bytes trades places with chunk
        `c ^ i % 8`.
    """

    pairs: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "pairs", tuple(sorted(self.pairs)))
        if {bit for bit, _ in self.pairs} & {by for _, by in self.pairs}:
            raise InternalError(f"a swizzle of {self.pairs} changes bits that change others")

    def __call__(self, address: int) -> int:
        """Where a byte lies."""
        for bit, by in self.pairs:
            address ^= (address >> by & 1) << bit
        return address

    @property
    def unit(self) -> int:
        """Bytes that stay beside each other; 0 where all do."""
        return 1 << self.pairs[0][0] if self.pairs else 0

    @property
    def period(self) -> int:
        """Bytes after which the pattern repeats: where it begins."""
        return 1 << max((by for _, by in self.pairs), default=-1) + 1

    def terms(self, size: int) -> tuple[int, int, int]:
        """(elements of a line, lines, elements of a unit), for elements of `size` bytes.

        Element i lies at `i ^ (i / line % lines * unit)`. Only for bits that follow each other.

        Raises:
            InternalError: a swizzle that is no such expression.
        """
        (bit, by), count = self.pairs[0], len(self.pairs)
        if self.pairs != tuple((bit + i, by + i) for i in range(count)) or size > self.unit:
            raise InternalError(f"no one exclusive-or of elements of {size} bytes is {self.pairs}")
        return (1 << by) // size, 1 << count, self.unit // size


CHUNK = 16
"""Bytes of a chunk that TMA and wgmma keep together."""

NONE = Swizzle()
HARDWARE = {
    0: NONE,
    32: Swizzle(((4, 7),)),
    64: Swizzle(((4, 7), (5, 8))),
    128: Swizzle(((4, 7), (5, 8), (6, 9))),
}
"""The swizzles that TMA and wgmma know, by the bytes of their rows, the least first: a chunk trades
places by the number of its line of 128 bytes (PTX ISA, "Swizzling modes")."""
