"""The matrix descriptor by which `wgmma` finds an operand in shared memory, from its layout.

An operand is `lines` (of m or n) by k. In bytes, with W those of a swizzled row, or 16 without:

    K-major,  swizzled   (line % 8) W + (line / 8) stride + k                  k below W
    K-major,  none       (line % 8) 16 + (line / 8) stride + k / 16 leading + k % 16
    MN-major, swizzled   (k % 8) W + (k / 8) stride + line % W + line / W leading
    MN-major, none       (k % 8) 16 + (k / 8) leading + line / 16 stride + line % 16

(k and line in bytes where they are the fastest; PTX ISA, "Matrix descriptor").
"""

from __future__ import annotations

from warpsmith.layouts.layout import Place
from warpsmith.layouts.memory import MemoryLayout
from warpsmith.layouts.swizzle import CHUNK, HARDWARE
from warpsmith.values import dataclass

EIGHT = 8
"""Lines of a core matrix."""

_CODES = {0: 0, 128: 1, 64: 2, 32: 3}


@dataclass(frozen=True, slots=True)
class Descriptor:
    """How an operand lies from its first byte on.

    Attributes:
        swizzle: bytes of the rows that are swizzled; 0 without.
        leading, stride: byte offsets as in the table above; 0 where there is no second.
        transposed: whether m or n is the fastest, not k.
    """

    swizzle: int
    leading: int
    stride: int
    transposed: bool = False

    def bits(self, address: int) -> int:
        """The 64 bits, for the address of the first byte; offsets that are not used are 1 unit."""
        leading, stride = (max(offset // CHUNK, 1) for offset in (self.leading, self.stride))
        return _CODES[self.swizzle] << 62 | stride << 32 | leading << 16 | address // CHUNK


def packed_rows(swizzle: int) -> Descriptor:
    """Rows of so many bytes along k, swizzled, without gaps."""
    return Descriptor(swizzle, leading=0, stride=EIGHT * swizzle)


def descriptor(tile: MemoryLayout) -> Descriptor | None:
    """The descriptor of an operand of lines and k; None if `wgmma` reads none that lies so."""
    row = next((row for row, swizzle in HARDWARE.items() if swizzle == tile.swizzle), None)
    if row is None or any(piece.place is not Place.ADDRESS for piece in tile.layout.pieces):
        return None
    return _fastest_k(tile, row) or _fastest_lines(tile, row)


def _fastest_k(tile: MemoryLayout, row: int) -> Descriptor | None:
    layout, chunk = tile.layout, CHUNK // tile.size
    lines, depth = layout.shape
    width = row or CHUNK
    stride = layout.stride(0, EIGHT, lines // EIGHT)
    fits = lines % EIGHT == 0 and layout.stride(0, 1, EIGHT) == width // tile.size
    if row:
        fits = fits and depth * tile.size <= row and layout.stride(1, 1, depth) == 1
        leading: int | None = 0
    else:
        fits = fits and depth % chunk == 0 and layout.stride(1, 1, chunk) == 1
        leading = layout.stride(1, chunk, depth // chunk)
    if not fits or stride is None or leading is None:
        return None
    return _of(row, leading * tile.size, stride * tile.size, transposed=False)


def _fastest_lines(tile: MemoryLayout, row: int) -> Descriptor | None:
    layout = tile.layout
    lines, depth = layout.shape
    width = (row or CHUNK) // tile.size
    if tile.size != 2 or lines % width or depth % EIGHT:
        return None
    fits = layout.stride(0, 1, width) == 1 and layout.stride(1, 1, EIGHT) == width
    along = layout.stride(0, width, lines // width)
    down = layout.stride(1, EIGHT, depth // EIGHT)
    if not fits or along is None or down is None:
        return None
    leading, stride = (along, down) if row else (down, along)
    return _of(row, leading * tile.size, stride * tile.size, transposed=True)


def _of(row: int, leading: int, stride: int, *, transposed: bool) -> Descriptor | None:
    """The descriptor, if its offsets are whole units of 16 bytes that 14 bits hold."""
    fits = all(offset % CHUNK == 0 and offset // CHUNK < 1 << 14 for offset in (leading, stride))
    return Descriptor(row, leading, stride, transposed) if fits else None
