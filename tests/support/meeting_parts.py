"""How a tile of 64 x 16 elements gets into shared memory, and what reads it, each in every way.

Rows of 32 bytes lie one after the other, and their two chunks of 16 bytes trade places as 32-byte
swizzles have it, so that products can read what any of the ways has written. The one block has 128
threads.
"""

from collections.abc import Callable
from dataclasses import dataclass

from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.kernel.nodes import Buffer, CopyVector, Declare, Element, For, Statement, Store
from warpsmith.kernel.products import MatrixTile, Multiply, StoreMatrix
from warpsmith.kernel.rings import TileCopy
from warpsmith.kernel.tiles import TileDim
from warpsmith.layouts.descriptors import packed_rows

Body = tuple[Statement, ...]

ROWS, DEPTH, COLUMNS, THREADS = 64, 16, 8, 128
"""Of a tile: rows and elements of one; columns of its product; threads of a block or role."""
TILE, CHUNK, SWIZZLE = ROWS * DEPTH, 8, 2 * DEPTH
SUMS = ROWS * COLUMNS // THREADS
"""Accumulators of a thread."""

X = Symbol("block_x", low=0, extent=Const(THREADS))
ZERO, ONE = integers.ZERO, integers.ONE
HALF, FLOAT = DataType.BFloat16, DataType.Float


@dataclass(frozen=True, kw_only=True)
class Place:
    """One shared buffer, and global memory before and behind it.

    Attributes:
        stages: of the shared buffer.
        turns: tiles.
    """

    stages: int
    turns: int

    @property
    def shared(self) -> Buffer:
        size = Const(self.stages * TILE)
        return Buffer("S", HALF, MemoryType.shared, size, guarded=True, alignment=1024)

    @property
    def given(self) -> Buffer:
        size = Const(self.turns * TILE)
        return Buffer("X", HALF, MemoryType.global_, size, False, alignment=128)

    @property
    def results(self) -> Buffer:
        """Tiles as they were given; or of products, which fill half of each."""
        size = Const(self.turns * TILE)
        return Buffer("Y", HALF, MemoryType.global_, size, True, alignment=128)


def chunk_at(thread: Expr) -> Expr:
    """Where in a stage a thread's 8 elements lie: two threads have a row."""
    row, chunk = integers.floordiv(thread, 2), integers.mod(thread, 2)
    return integers.add(integers.mul(row, DEPTH), integers.mul(_traded(row, chunk), CHUNK))


def _traded(row: Expr, chunk: Expr) -> Expr:
    line = integers.mod(integers.floordiv(row, 4), 2)
    return Apply("xor", (chunk, line), DataType.Index)


def _elements(symbol: str, statement: Callable[[Expr], Statement], count: int = CHUNK) -> For:
    place = Symbol(symbol, low=0, extent=Const(count))
    return For(place, Const(count), (statement(place),), unroll=True)


def _registers(name: str, count: int, dtype: DataType = HALF) -> Buffer:
    return Buffer(name, dtype, MemoryType.local, Const(count))


# --- writers -----------------------------------------------------------------------------------


def _first(place: Place, turn: Expr, thread: Expr) -> Expr:
    """A thread's first element of a tile in global memory."""
    return integers.add(integers.mul(turn, TILE), integers.mul(thread, CHUNK))


def stored(place: Place, turn: Expr) -> Body:
    """Each thread stores 8 elements."""
    copy = CopyVector(place.shared, chunk_at(X), place.given, _first(place, turn, X), CHUNK)
    return (copy,)


def copied(place: Place, turn: Expr) -> Body:
    """Each thread asks for 16 bytes by `cp.async`."""
    first = _first(place, turn, X)
    return (CopyVector(place.shared, chunk_at(X), place.given, first, CHUNK, asynchronous=True),)


def stored_matrices(place: Place, turn: Expr) -> Body:
    """Each warp stores its 16 rows as four matrices of 8 x 8 elements."""
    held = _registers("R", CHUNK)
    warp, lane = integers.floordiv(X, 32), integers.mod(X, 32)
    above = integers.mul(warp, 16)
    matrix = Symbol("m", low=0, extent=Const(4))
    row = integers.add(above, integers.mul(integers.mod(matrix, 2), 8), integers.floordiv(lane, 4))
    column = integers.add(
        integers.mul(integers.floordiv(matrix, 2), CHUNK), integers.mul(integers.mod(lane, 4), 2)
    )
    source = integers.add(integers.mul(turn, TILE), integers.mul(row, DEPTH), column)
    load = CopyVector(held, integers.mul(matrix, 2), place.given, source, 2)
    mine = integers.add(above, integers.mod(lane, 16))
    chunk = _traded(mine, integers.floordiv(lane, 16))
    target = integers.add(integers.mul(mine, DEPTH), integers.mul(chunk, CHUNK))
    store = StoreMatrix(place.shared, target, held, ZERO)
    return Declare(held), For(matrix, Const(4), (load,), unroll=True), store


def loaded_by_tma(place: Place, turn: Expr) -> Body:
    """One thread asks the TMA unit for the tile."""
    return (_tile(place, turn, place.given, stores=False),)


def _tile(place: Place, turn: Expr, memory: Buffer, *, stores: bool) -> TileCopy:
    first = integers.mul(turn, ROWS)
    rows = TileDim(ROWS, first, Const(place.turns * ROWS), Const(DEPTH))
    return TileCopy(
        shared=place.shared,
        index=ZERO,
        memory=memory,
        dims=(rows, TileDim(DEPTH, ZERO, Const(DEPTH), ONE)),
        inside=Const(DEPTH),
        condition=integers.TRUE,
        how=LoadStoreOpType.tma,
        swizzle=SWIZZLE,
        stores=stores,
    )


# --- readers -----------------------------------------------------------------------------------


def read(place: Place, turn: Expr) -> Body:
    """Each thread loads what another one is to store, of another warp."""
    return _read_of(place, turn, integers.sub(THREADS - 1, X))


def read_own(place: Place, turn: Expr) -> Body:
    """Each thread loads what it stored itself."""
    return _read_of(place, turn, X)


def _read_of(place: Place, turn: Expr, thread: Expr) -> Body:
    first = _first(place, turn, thread)
    return (CopyVector(place.results, first, place.shared, chunk_at(thread), CHUNK),)


def multiplied(place: Place, turn: Expr) -> Body:
    """The warp group multiplies the tile by its first 8 rows."""
    sums = _registers("sums", SUMS, FLOAT)
    return Declare(sums), product(place, sums, integers.FALSE), kept(place, sums, turn)


def product(place: Place, sums: Buffer, keep: Expr) -> Multiply:
    tile = MatrixTile(place.shared, ZERO, packed_rows(SWIZZLE))
    return Multiply(sums, ZERO, tile, tile, COLUMNS, keep)


def kept(place: Place, sums: Buffer, turn: Expr) -> For:
    """Each thread stores its sums, rounded, in the first half of its elements."""

    def store(number: Expr) -> Statement:
        rounded = Apply("cast", (Element(sums, number),), HALF)
        return Store(place.results, integers.add(_first(place, turn, X), number), rounded)

    return _elements("j", store, SUMS)


def stored_by_tma(place: Place, turn: Expr) -> Body:
    """One thread has the TMA unit store the tile."""
    return (_tile(place, turn, place.results, stores=True),)


WRITERS = {
    "store": stored,
    "stmatrix": stored_matrices,
    "TMA load": loaded_by_tma,
    "cp.async": copied,
}
READERS = {
    "load": read,
    "own load": read_own,
    "wgmma": multiplied,
    "TMA store": stored_by_tma,
}
