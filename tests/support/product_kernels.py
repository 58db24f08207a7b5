"""A product of matrices as a kernel with roles, written by hand: the model of what is derived.

d = a b^T for 16-bit floats, both operands contiguous along k, by blocks that take tiles in turn.

Roles
  load    : warp 0, one thread, the TMA unit; loops tile { k }
  compute : `groups` warp groups of 128 threads, 64 rows of a tile each; loops tile { k } epilogue
Ring `ring0`, stages of a tile of a and one of b
  full    : 1 arrival (load, with the bytes of both)
  empty   : 4 arrivals a warp group, once the products that read the stage are done
Steady state of compute: await full, multiply, commit, await all groups but this one, release the
stage of the iteration before. So one group of products is always on its way, and a second cursor
trails the first by one stage. Behind the loop the last group is awaited, and its stage released.
Epilogue, in chunks of 64 columns: registers, stmatrix, fence, meeting, one store by the TMA unit.
The elected thread waits before the meeting until the next chunk's stage has been read.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.support.role_parts import Body, block_threads
from tests.support.simulating import Contents, simulated
from tests.support.tiled_product import (
    CHUNK,
    PART,
    PLACE,
    STEP,
    STEP_K,
    TILE,
    K,
    M,
    N,
    Product,
)
from warpsmith.ir import integers
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.kernel.agents import Branch
from warpsmith.kernel.kernel import Kernel, Launch
from warpsmith.kernel.nodes import Buffer, Declare, Element, For, If, Store, Synchronize
from warpsmith.kernel.products import (
    AwaitProducts,
    CommitProducts,
    FenceProducts,
    MatrixTile,
    Multiply,
    StoreMatrix,
)
from warpsmith.kernel.rings import (
    ELECTED,
    Advance,
    ArriveByWarp,
    Await,
    AwaitCopies,
    Begin,
    CommitCopies,
    Cursor,
    Expect,
    FenceProxy,
    InitBarriers,
    TileCopy,
)
from warpsmith.kernel.tiles import TileDim
from warpsmith.layouts.descriptors import packed_rows
from warpsmith.lower.passes.collect_maps import collect_maps
from warpsmith.lower.passes.lay_out_shared import lay_out_shared
from warpsmith.ops.scalars import numpy_dtype
from warpsmith.targets.atoms import ROWS
from warpsmith.targets.family import WARP_GROUP


def product_kernel(product: Product) -> Kernel:
    """The kernel, over sizes m, n and k, of which n and k are multiples of 8."""
    ring, one = product.ring, integers.ONE
    assert ring.empty is not None
    arrivals = ((ring.full, one), (ring.empty, Const(WARP_GROUP * product.groups)))
    branches = (load_branch(product), compute_branch(product))
    return collect_maps(
        lay_out_shared(
            Kernel(
                name="k",
                parameters=product.tensors,
                scalars=(M, N, K),
                shared=(*product.operands, product.staged, ring.full, ring.empty),
                body=(InitBarriers(arrivals), Synchronize("barriers are ready"), *branches),
                launch=Launch(
                    (Const(product.blocks), one, one),
                    (block_threads((product.load, product.compute)), one, one),
                    1,
                ),
                index_type=DataType.Int32,
                pipelines=(ring,),
            )
        )
    )


# --- loops -------------------------------------------------------------------------------------


def _tiles(product: Product, body: Body) -> For:
    """All tiles of this block: blocks take them in turn."""
    count = integers.mul(integers.ceildiv(M, product.rows), integers.ceildiv(N, product.columns))
    mine = integers.ceildiv(integers.sub(count, _block(product)), product.blocks)
    return For(TILE, mine, body, unroll=False)


def _block(product: Product) -> Expr:
    if product.blocks == 1:
        return integers.ZERO
    return Symbol("grid_x", low=0, extent=Const(product.blocks))


def _first(product: Product) -> tuple[Expr, Expr]:
    """First row and first column of the tile."""
    number = integers.add(integers.mul(TILE, product.blocks), _block(product))
    down = integers.ceildiv(M, product.rows)
    row = integers.mul(integers.mod(number, down), product.rows)
    return row, integers.mul(integers.floordiv(number, down), product.columns)


def _along_k(product: Product, body: Body) -> For:
    return For(STEP_K, integers.ceildiv(K, product.depth), body, unroll=False)


# --- load --------------------------------------------------------------------------------------


def load_branch(product: Product) -> Branch:
    ring = product.ring
    fill = Cursor("ring0_fill", ring.stages)
    assert ring.empty is not None
    row, column = _first(product)
    (a, b), (from_a, from_b, _) = product.operands, product.tensors
    copies = (
        _loaded(product, a, from_a, row, M, product.rows, fill),
        _loaded(product, b, from_b, column, N, product.columns, fill),
    )
    body = (
        Await(ring.empty, fill.stage, integers.sub(1, fill.phase)),
        Expect(ring.full, fill.stage, integers.add(*(copy.bytes for copy in copies))),
        *copies,
        Advance(fill),
    )
    return Branch(product.load, (Begin(fill), _tiles(product, (_along_k(product, body),))))


def _loaded(
    product: Product, to: Buffer, source: Buffer, first: Expr, size: Expr, box: int, fill: Cursor
) -> TileCopy:
    depth = product.depth
    return TileCopy(
        shared=to,
        index=integers.mul(fill.stage, box * depth),
        memory=source,
        dims=(
            TileDim(box, first, size, K),
            TileDim(depth, integers.mul(STEP_K, depth), K, integers.ONE),
        ),
        inside=Const(depth),
        condition=integers.TRUE,
        how=LoadStoreOpType.tma,
        swizzle=2 * depth,
        barrier=(product.ring.full, fill.stage),
    )


# --- compute -----------------------------------------------------------------------------------


def compute_branch(product: Product) -> Branch:
    ring, sums = product.ring, product.accumulators
    assert ring.empty is not None
    use, behind = (Cursor(f"ring0_{name}", ring.stages) for name in ("use", "behind"))
    staging = Cursor("ring1_use", product.staging)
    release = (ArriveByWarp(ring.empty, behind.stage), Advance(behind))
    turn = (
        Await(ring.full, use.stage, use.phase),
        FenceProducts(),
        For(PART, Const(product.depth // STEP), (_multiply(product, use),), unroll=True),
        CommitProducts(),
        AwaitProducts(1),
        If(integers.less(0, STEP_K), release, uniform=True),
        Advance(use),
    )
    tile = (
        Declare(sums),
        _along_k(product, turn),
        AwaitProducts(0, (sums,)),
        *release,
        *_epilogue(product, staging),
    )
    done = If(ELECTED, (AwaitCopies(bulk=True),))
    begin = (Begin(use), Begin(behind), Begin(staging))
    return Branch(product.compute, (*begin, _tiles(product, tile), done))


def _group(product: Product) -> Expr:
    """Number of the thread's warp group."""
    if product.groups == 1:
        return integers.ZERO
    return Symbol("block_y", low=0, extent=Const(product.groups))


def _multiply(product: Product, use: Cursor) -> Multiply:
    a, b = product.operands
    depth = product.depth
    part = integers.mul(PART, STEP)
    of_a = integers.add(
        integers.mul(use.stage, product.rows * depth),
        integers.mul(_group(product), ROWS * depth),
        part,
    )
    of_b = integers.add(integers.mul(use.stage, product.columns * depth), part)
    number = integers.add(integers.mul(STEP_K, depth // STEP), PART)
    return Multiply(
        product.accumulators,
        integers.ZERO,
        MatrixTile(a, of_a, packed_rows(2 * depth)),
        MatrixTile(b, of_b, packed_rows(2 * depth)),
        product.columns,
        integers.less(0, number),
    )


def _epilogue(product: Product, staging: Cursor) -> Body:
    """Chunks of columns, each rounded, staged and stored."""
    count = product.chunk // 2  # elements of a thread
    rounded = Buffer("T5", product.dtype, MemoryType.local, Const(count))
    source = Element(product.accumulators, integers.add(integers.mul(CHUNK, count), PLACE))
    cast = Store(rounded, PLACE, Apply("cast", (source,), product.dtype))
    row, column = _first(product)
    column = integers.add(column, integers.mul(CHUNK, product.chunk))
    copy = TileCopy(
        shared=product.staged,
        index=_stage(product, staging),
        memory=product.tensors[2],
        dims=(
            TileDim(product.rows, row, M, N),
            TileDim(product.chunk, column, N, integers.ONE),
        ),
        inside=Const(product.chunk),
        condition=integers.less(column, N),
        how=LoadStoreOpType.tma,
        swizzle=2 * product.chunk,
        stores=True,
    )
    body = (
        Declare(rounded),
        For(PLACE, Const(count), (cast,), unroll=True),
        For(PLACE, Const(count // 8), (_staged(product, staging, rounded),), unroll=True),
        FenceProxy(),
        If(ELECTED, (AwaitCopies(bulk=True, pending=product.staging - 2),)),
        Synchronize("the chunk is staged, and the next one's stage is free"),
        If(ELECTED, (copy, CommitCopies(bulk=True))),
        Advance(staging),
    )
    return (For(CHUNK, Const(product.columns // product.chunk), body, unroll=True),)


def _stage(product: Product, staging: Cursor) -> Expr:
    return integers.mul(staging.stage, product.rows * product.chunk)


def _staged(product: Product, staging: Cursor, rounded: Buffer) -> StoreMatrix:
    """Two times 8 columns of a warp's 16 rows; a lane says where one row of 8 elements lies."""
    x = Symbol("block_x", low=0, extent=Const(128))
    lane = integers.mod(x, 32)
    row = integers.add(
        integers.mul(_group(product), ROWS),
        integers.mul(integers.floordiv(x, 32), 16),
        integers.mod(lane, 16),
    )
    columns = integers.add(integers.mul(PLACE, 2), integers.floordiv(lane, 16))
    # Rows of less than 128 bytes share a line of them, and trade places by the line's number.
    line = integers.floordiv(lane, 64 // product.chunk) if product.chunk < 64 else lane
    swapped = Apply("xor", (columns, integers.mod(line, product.chunk // 8)), DataType.Index)
    place = integers.add(
        _stage(product, staging), integers.mul(row, product.chunk), integers.mul(swapped, 8)
    )
    return StoreMatrix(product.staged, place, rounded, integers.mul(PLACE, 8))


# --- running -----------------------------------------------------------------------------------


def check_product(
    product: Product,
    m: int,
    n: int,
    k: int,
    *,
    schedules: int,
    change: Callable[[Kernel], Kernel] = lambda kernel: kernel,
) -> None:
    """Run the kernel on the simulator: clean under all schedules, and exact.

    Inputs are small whole numbers, so that every sum is exact in float, and rounded once.
    """
    random = np.random.default_rng(m * n + k)
    kind = numpy_dtype(product.dtype)
    a, b = (random.integers(-4, 5, (lines, k)).astype(np.float64) for lines in (m, n))
    memory = {
        "T0": _given(a, kind),
        "T1": _given(b, kind),
        "T7": Contents(np.zeros(m * n, kind), np.zeros(m * n, bool)),
    }
    values = {"m": m, "n": n, "k": k}
    results = simulated(change(product_kernel(product)), values, memory, schedules=schedules)
    found = results["T7"].reshape(m, n).astype(np.float64)
    np.testing.assert_array_equal(found, (a @ b.T).astype(kind).astype(np.float64))


def _given(values: np.ndarray, kind: np.dtype) -> Contents:
    data = values.astype(kind).reshape(-1)
    return Contents(data, np.ones(data.shape, bool))
