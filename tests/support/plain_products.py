"""A product of matrices without roles and rings: threads store operands, multiply and store."""

import numpy as np

from tests.support.by_hand import kernel_of, launch_of
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Declare, Element, For, Statement, Store, Synchronize
from warpsmith.kernel.products import (
    AwaitProducts,
    CommitProducts,
    FenceProducts,
    MatrixTile,
    Multiply,
    StoreMatrix,
)
from warpsmith.kernel.rings import FenceProxy
from warpsmith.kernel.traversal import map_bodies, walk
from warpsmith.layouts.descriptors import packed_rows
from warpsmith.lower.passes.lay_out_shared import lay_out_shared
from warpsmith.ops.scalars import numpy_dtype
from warpsmith.targets.atoms import ROWS

THREADS, COLUMNS, DEPTH, TILES = 128, 32, 32, 2
"""A warp group; columns of the result; a tile's elements along k, rows of 64 bytes; tiles."""

Body = tuple[Statement, ...]
X = Symbol("block_x", low=0, extent=Const(THREADS))
LANE = integers.mod(X, 32)
WARP = integers.floordiv(X, 32)


def _buffer(name: str, memory: MemoryType, size: int, dtype: DataType) -> Buffer:
    return Buffer(name, dtype, memory, Const(size), name not in "AB", alignment=512)


BFLOAT16 = DataType.BFloat16
A = _buffer("A", MemoryType.global_, ROWS * DEPTH * TILES, BFLOAT16)
B = _buffer("B", MemoryType.global_, COLUMNS * DEPTH * TILES, BFLOAT16)
D = _buffer("D", MemoryType.global_, ROWS * COLUMNS, BFLOAT16)
SHARED_A = _buffer("shared_a", MemoryType.shared, ROWS * DEPTH, BFLOAT16)
SHARED_B = _buffer("shared_b", MemoryType.shared, COLUMNS * DEPTH, BFLOAT16)
SHARED_D = _buffer("shared_d", MemoryType.shared, ROWS * COLUMNS, BFLOAT16)
SUMS = _buffer("sums", MemoryType.local, COLUMNS // 2, DataType.Float)
ROUNDED = _buffer("rounded", MemoryType.local, COLUMNS // 2, BFLOAT16)


def plain_kernel(body: Body) -> Kernel:
    shared = (SHARED_A, SHARED_B, SHARED_D)
    launch = launch_of(THREADS)
    return lay_out_shared(kernel_of(*body, launch=launch, parameters=(A, B, D), shared=shared))


def plain_body() -> Body:
    """What is right: with every fence, wait and meeting that it takes."""
    tile, part, place = Symbol("t", low=0), Symbol("p", low=0), Symbol("i", low=0)
    rounded = Store(ROUNDED, place, Apply("cast", (Element(SUMS, place),), BFLOAT16))
    return (
        Declare(SUMS),
        For(
            tile,
            Const(TILES),
            (
                _stored(SHARED_A, A, ROWS, tile),
                _stored(SHARED_B, B, COLUMNS, tile),
                FenceProxy(),
                Synchronize("operands are there"),
                FenceProducts(),
                For(part, Const(DEPTH // 16), (_multiply(tile, part),), unroll=True),
                CommitProducts(),
                AwaitProducts(0, (SUMS,)),
                Synchronize("operands were read"),
            ),
            unroll=False,
        ),
        Declare(ROUNDED),
        For(place, Const(COLUMNS // 2), (rounded,), unroll=True),
        For(part, Const(COLUMNS // 16), (_staged(part),), unroll=True),
        Synchronize("the result is there"),
        For(place, Const(ROWS * COLUMNS // THREADS), (_result(place),), unroll=False),
    )


def _stored(target: Buffer, source: Buffer, rows: int, tile: Expr) -> For:
    """A tile's element in turn over the threads, in rows of 64 bytes whose chunks trade places."""
    turn = Symbol("r", low=0)
    index = integers.add(integers.mul(turn, THREADS), X)
    row, element = integers.floordiv(index, DEPTH), integers.mod(index, DEPTH)
    place = integers.add(integers.mul(row, DEPTH * TILES), integers.mul(tile, DEPTH), element)
    store = Store(target, _swizzled(row, element), Element(source, place))
    return For(turn, Const(rows * DEPTH // THREADS), (store,), unroll=False)


def _swizzled(row: Expr, element: Expr) -> Expr:
    """Place of an element: two rows share 128 bytes, and these lines trade four chunks."""
    line = integers.mod(integers.floordiv(row, 2), 4)
    chunk = Apply("xor", (integers.floordiv(element, 8), line), DataType.Index)
    return integers.add(integers.mul(row, DEPTH), integers.mul(chunk, 8), integers.mod(element, 8))


def _multiply(tile: Expr, part: Expr) -> Multiply:
    start = integers.mul(part, 16)
    a, b = (MatrixTile(buffer, start, packed_rows(2 * DEPTH)) for buffer in (SHARED_A, SHARED_B))
    keep = integers.less(0, integers.add(tile, part))
    return Multiply(SUMS, integers.ZERO, a, b, COLUMNS, keep)


def _staged(part: Expr) -> StoreMatrix:
    """Two times 8 columns of the warp's 16 rows, to rows of the result without a swizzle."""
    row = integers.add(integers.mul(WARP, 16), integers.mod(LANE, 16))
    column = integers.add(integers.mul(part, 16), integers.mul(integers.floordiv(LANE, 16), 8))
    place = integers.add(integers.mul(row, COLUMNS), column)
    return StoreMatrix(SHARED_D, place, ROUNDED, integers.mul(part, 8))


def _result(turn: Expr) -> Store:
    place = integers.add(integers.mul(turn, THREADS), X)
    return Store(D, place, Element(SHARED_D, place))


def plain_inputs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """a, b and their product; whole numbers, so that nothing is rounded."""
    random = np.random.default_rng(0)
    a, b = (random.integers(-2, 3, (lines, DEPTH * TILES)) for lines in (ROWS, COLUMNS))
    kind = numpy_dtype(BFLOAT16)
    return a.astype(kind), b.astype(kind), (a @ b.T).astype(kind)


def replaced(body: Body, old: Statement, *new: Statement) -> Body:
    """The body with other statements, or none, in place of one, wherever it stands."""
    assert old in walk(body)
    return _replaced(body, old, new)


def _replaced(body: Body, old: Statement, new: Body) -> Body:
    result: list[Statement] = []
    for each in body:
        if each == old:
            result += new
        else:
            result.append(map_bodies(each, lambda body: _replaced(body, old, new)))
    return tuple(result)
