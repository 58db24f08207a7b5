"""Products whose warp groups take turns, a tile of 64 rows each: the seed's ping-pong, by hand."""

from typing import Any, Literal

from warpsmith import (
    DataType,
    FusionDefinition,
    LoadStoreOpType,
    MemoryType,
    ParallelType,
    TileOrder,
)

ROWS, DEPTH, BLOCKS = 64, 64, 2
GRID_X, BLOCK_X, BLOCK_Y, TMA = (
    getattr(ParallelType, name) for name in ("grid_x", "block_x", "block_y", "tma")
)

BY_ROWS = TileOrder()

Held = Literal["groups", "one"]
By = Literal["store", "compute", "threads"]


def ping_pong_product(
    *,
    groups: int = 2,
    columns: int = 64,
    depth: int = -1,
    held: Held = "groups",
    allocated: Held = "groups",
    ordered: bool = True,
    stages: int = 4,
    stored_by: By = "store",
    bound: bool = False,
    raster: int = 0,
    order: TileOrder = BY_ROWS,
    dynamic: bool = False,
) -> FusionDefinition:
    """`linear`; a tile goes through registers to 64 columns of shared memory at a time, or out.

    Args:
        depth: columns of the operands; -1 for calls to say.
        held: a stage of the staged result holds the tiles of all groups, or of one.
        allocated: the allocation domain names the groups' loop, or does not.
        ordered: the groups' main loops, and epilogues, follow each other.
        stages: of the operands.
        stored_by: a role of its own; the groups, which each ask for a copy of their own tile; or
            their threads, from registers.
        bound: the stores' loop over groups is bound as the groups' own one is.
        raster: rows of tiles that are walked together, as splits say it; 0 for one.
        order: of the tiles, as it is said in one word.
    """
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1, depth], True, DataType.BFloat16) for _ in range(2))
        out: Any = fd.ops.linear(a, b)
        fd.add_output(out)
        result: Any = out if stored_by == "threads" else out.cache_before()
        product: Any = result.definition.inputs[0]
        staged: Any = None
        if result is not out:
            staged = result.cache_after()
            staged.set_memory_type(MemoryType.shared)
            staged.set_swizzle(128)
            staged.set_load_store_op(LoadStoreOpType.stmatrix)
            out.set_load_store_op(LoadStoreOpType.tma)
        operands: list[Any] = [t.cache_after(op_type=LoadStoreOpType.tma) for t in (a, b)]
        _tiles(out, columns, groups, raster, order)
        if dynamic:
            out.axis(0).parallelize(ParallelType.dynamic)
        fd.sched.transform_like(out)
        fd.sched.parallelize_like(out)
        _load(operands, stages)
        product.split(5, DEPTH)
        product.split(6, 16)
        product.reorder({5: 3, 6: 4})  # turn, block, group, k tile, k step, rows, columns, k
        product.axis(2).parallelize(BLOCK_Y)
        product.tensorize()
        if staged is None:
            out.split_fragments()
            out.axis(2).parallelize(BLOCK_Y)
            out.axis(-4).parallelize(BLOCK_X)
            fd.sched.inline_at(out, 3, selected_tensors=[product], best_effort=True)
        else:
            _through_shared(fd, product, result, staged, out, columns > 64, allocated)
            if bound:
                out.axis(2).parallelize(BLOCK_Y)
            if stored_by == "store":
                position = (4 if columns > 64 else 3) if held == "one" else 2
                staged.circular_buffer(groups, stage_slice_position=position)
                out.set_role("store")
            elif columns > 64:
                staged.circular_buffer(2)
        if ordered:
            product.order_groups("main")
            for tensor in (result,) if staged is None else (result, staged):
                tensor.order_groups("epilogue")
    return fd


def _tiles(out: Any, columns: int, groups: int, raster: int, order: TileOrder) -> None:
    """Loops `[turn, block, group, rows, columns]`: groups of blocks loop over tiles."""
    out.split(1, columns)
    out.split(0, ROWS)
    out.reorder({1: 2, 2: 1})
    if raster:
        out.split(0, raster)
        out.reorder({1: 2, 2: 1})
        out.merge(0)
    out.order_tiles(0, order)
    out.split(0, groups)
    out.split(0, BLOCKS)
    out.axis(1).parallelize(GRID_X)


def _load(operands: list[Any], stages: int) -> None:
    """Loops `[turn, block, group, k tile, rows, columns, k]`, the last three a copy."""
    for operand, lacking in zip(operands, (5, 4), strict=True):
        operand.set_memory_type(MemoryType.shared)
        operand.set_swizzle(128)
        operand.split(5, DEPTH)
        operand.reorder({5: 3})
        operand.reorder({lacking: 4})
        for axis in (4, 5, 6):
            operand.axis(axis).parallelize(TMA)
        operand.circular_buffer(stages, role="load", stage_slice_position=4)


def _through_shared(
    fd: FusionDefinition,
    product: Any,
    result: Any,
    staged: Any,
    out: Any,
    chunks: bool,
    allocated: Held,
) -> None:
    """Loops `[turn, block, group, chunk, ..]` of results that leave by the TMA unit."""
    for tensor in (result, staged, out):
        if chunks:
            tensor.split(4, 64)
            tensor.reorder({4: 3})
    tile = staged.loop[-2:]
    staged.set_allocation_domain([*staged.loop[2:3], *tile] if allocated == "groups" else tile)
    for tensor in (result, staged):
        tensor.split_fragments()
        tensor.axis(2).parallelize(BLOCK_Y)
        tensor.axis(-4).parallelize(BLOCK_X)
    staged.split(-3, 2)
    staged.tensorize()
    for axis in (-2, -1):
        out.axis(axis).parallelize(TMA)
    fd.sched.inline_at(out, 4 if chunks else 3, selected_tensors=[staged])
    fd.sched.inline_at(staged, 6 if chunks else 5, selected_tensors=[result], best_effort=True)
    fd.sched.inline_at(result, 3, selected_tensors=[product], best_effort=True)
