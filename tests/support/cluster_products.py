"""Kernels by hand in which blocks of a cluster load for each other: products, rows plus a row."""

from typing import Any

from warpsmith import DataType, FusionDefinition, LoadStoreOpType, MemoryType, ParallelType

GRID_X, CLUSTER_X, BLOCK_X, BLOCK_Y, TMA = (
    getattr(ParallelType, name) for name in ("grid_x", "cluster_x", "block_x", "block_y", "tma")
)


def cluster_product(
    cluster: tuple[int, int] = (2, 1),
    *,
    tile: tuple[int, int, int] = (64, 64, 64),
    stages: int = 3,
    grid: int = 2,
    band: int = 0,
    ping_pong: bool = False,
    role: str | None = "load",
) -> FusionDefinition:
    """`linear`; clusters loop over tiles of the output, a tile a block.

    Args:
        cluster: blocks along the rows and the columns of the output. Those of one column read the
            same tiles of the second operand, those of one row the same of the first.
        tile: rows, columns, and elements of k at a time.
        grid: clusters at once.
        band: blocks of a cluster take tiles that follow each other, in bands of so many rows of
            tiles, column by column; 0 where they are a box of tiles.
        role: that loads; None for the warps that multiply, which run ahead of themselves.
        ping_pong: two warp groups take turns, a tile of 64 rows each, and follow each other.
    """
    rows, columns, depth = tile
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1, -1], True, DataType.BFloat16) for _ in range(2))
        out: Any = fd.ops.linear(a, b)
        fd.add_output(out)
        result: Any = out.cache_before()
        product: Any = result.definition.inputs[0]
        operands: list[Any] = [t.cache_after(op_type=LoadStoreOpType.tma) for t in (a, b)]
        out.split(1, columns)
        out.split(0, rows)
        out.reorder({2: 1, 1: 2})  # tiles of rows, tiles of columns, rows, columns
        if band:
            out.split(0, band)
            out.reorder({2: 1, 1: 2})  # bands, columns, tiles of a band
            out.merge(0)
            out.merge(0)
            out.split(0, cluster[0] * cluster[1])
        else:
            out.split(1, cluster[1])
            out.split(0, cluster[0])
            out.reorder({2: 1, 1: 2})  # clusters along rows and columns, blocks along both
            out.merge(2)
            out.merge(0)
        if ping_pong:
            out.split(0, 2)
        out.split(0, grid)  # turn, cluster, group that takes turns, block, rows, columns
        at = 4 if ping_pong else 3
        out.axis(1).parallelize(GRID_X)
        out.axis(at - 1).parallelize(CLUSTER_X)
        fd.sched.transform_like(out)
        fd.sched.parallelize_like(out)
        for operand in operands:
            operand.set_memory_type(MemoryType.shared)
            operand.set_swizzle(128)
            operand.split(at + 2, depth)
            operand.reorder({at + 2: at})  # .., block, k tile, rows, columns, k
            if operand is operands[0]:
                operand.reorder({at + 2: at + 1})  # the loop that it lacks stands outside
            for axis in range(at + 1, at + 4):
                operand.axis(axis).parallelize(TMA)
            if role is None:
                operand.circular_buffer(stages)
            else:
                operand.circular_buffer(stages, role=role, stage_slice_position=at + 1)
        product.split(at + 2, depth)
        product.split(at + 3, 16)
        if not ping_pong:
            product.split(at, 64)
        product.reorder({-3: at + 1 - ping_pong, -2: at + 2 - ping_pong})
        product.axis(2 if ping_pong else 3).parallelize(BLOCK_Y)
        if role is None:
            product.reorder({at + 1: at})  # warp groups use a stage together
        product.tensorize()  # .., k tile, k step, 64, columns, 16
        for tensor in (result, out):
            if not ping_pong:
                tensor.split(at, 64)
            tensor.split_fragments()
            tensor.axis(2 if ping_pong else 3).parallelize(BLOCK_Y)
            tensor.axis(4).parallelize(BLOCK_X)
        fd.sched.inline_most([result])
        fd.sched.inline_at(result, at, selected_tensors=[product])
        if role is None:
            fd.sched.inline_at(product, at + 1, selected_tensors=operands)
        if ping_pong:
            product.order_groups("main")
            for tensor in (result, out):
                tensor.order_groups("epilogue")
    return fd


def rows_plus_row(
    blocks: int = 2,
    *,
    rows: int = 4,
    columns: int = 128,
    stored_by_role: bool = False,
    role: str | None = "load",
    stages: int = 2,
    once: bool = False,
) -> FusionDefinition:
    """`x + w[None]`: blocks of a cluster have other rows of `x`, and the same part of `w`.

    Args:
        role: that loads; None for the threads that add, which run ahead of themselves.
        once: a cluster has one part of its rows, and no loop over them.
        stored_by_role: tiles of the sum leave by the TMA unit, from a role of its own.
    """
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, DataType.Float)
        w = fd.define_tensor([-1], True, DataType.Float)
        y: Any = fd.ops.add(x, fd.ops.broadcast(w, [True, False]))
        fd.add_output(y)
        tiles: list[Any] = [t.cache_after(op_type=LoadStoreOpType.tma) for t in (x, w)]
        staged: Any = y.cache_before(op_type=LoadStoreOpType.tma) if stored_by_role else y
        y.split(1, columns)
        y.split(0, rows)
        y.reorder({1: 2, 2: 1})
        y.split(0, blocks)  # clusters, blocks, parts of a row, rows, columns
        y.axis(0).parallelize(GRID_X)
        y.axis(1).parallelize(CLUSTER_X)
        if once:
            y.axis(2).parallelize(ParallelType.grid_y)
        fd.sched.transform_like(y)
        fd.sched.parallelize_like(y)
        fd.sched.inline_at(y, 3)
        for tile in (*tiles, *([y] if stored_by_role else [])):
            tile.set_memory_type(MemoryType.shared) if tile is not y else None
            for axis in (-2, -1):
                tile.axis(axis).parallelize(TMA)
        staged.axis(-1).parallelize(BLOCK_X)
        if stored_by_role:
            staged.set_memory_type(MemoryType.shared)
            staged.circular_buffer(2)
            y.set_role("store")
        for tile in tiles:
            if role is not None:
                tile.circular_buffer(stages, role=role)
            elif stages > 1:
                tile.circular_buffer(stages)
    return fd


def two_rows(blocks: int = 2) -> FusionDefinition:
    """`x + v[None]` and `y * w[None]`, one after the other, each row through stages of its own."""
    with FusionDefinition() as fd:
        rows = [fd.define_tensor([-1], True, DataType.Float) for _ in range(2)]
        arrays = [fd.define_tensor([-1, -1], True, DataType.Float) for _ in range(2)]
        for row, array, op in zip(rows, arrays, (fd.ops.add, fd.ops.mul), strict=True):
            out: Any = op(array, fd.ops.broadcast(row, [True, False]))
            fd.add_output(out)
            tile: Any = row.cache_after(op_type=LoadStoreOpType.tma)
            tile.set_memory_type(MemoryType.shared)
            out.split(1, 128)
            out.split(0, 4)
            out.reorder({1: 2, 2: 1})
            out.split(0, blocks)  # clusters, blocks, parts of a row, rows, columns
            for axis, kind in ((0, GRID_X), (1, CLUSTER_X), (-1, BLOCK_X)):
                out.axis(axis).parallelize(kind)
            read = [each for each in out.definition.inputs if not each.is_input]
            fd.sched.transform_like(out, [tile, *read])
            fd.sched.parallelize_like(out, selected_tensors=read)
            for axis, kind in ((0, GRID_X), (1, CLUSTER_X), (-1, TMA)):
                tile.axis(axis).parallelize(kind)
            fd.sched.inline_at(out, 3, selected_tensors=[tile, *read])
            tile.circular_buffer(4)
    return fd
