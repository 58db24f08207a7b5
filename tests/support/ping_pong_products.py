"""Products whose warp groups take turns, a tile of 64 rows each, and a role that stores them."""

from __future__ import annotations

from typing import Any, Literal

from warpsmith import DataType, FusionDefinition, LoadStoreOpType, MemoryType, ParallelType
from warpsmith.schedule.transforms import set_allocation_domain

ROWS, DEPTH, BLOCKS = 64, 64, 2
GRID_X, BLOCK_X, BLOCK_Y, TMA = (
    getattr(ParallelType, name) for name in ("grid_x", "block_x", "block_y", "tma")
)

Held = Literal["groups", "one"]


def ping_pong_product(
    *,
    groups: int = 2,
    columns: int = 64,
    depth: int = -1,
    held: Held = "groups",
    allocated: Held = "groups",
    ordered: bool = True,
    stages: int = 4,
    stored_by: Literal["store", "compute"] = "store",
    bound: bool = False,
) -> FusionDefinition:
    """`linear`; a tile goes through registers to 64 columns of shared memory at a time.

    Args:
        depth: columns of the operands; -1 for calls to say.
        held: a stage of the staged result holds the tiles of all groups, or of one.
        allocated: the allocation domain names the groups' loop, or does not.
        ordered: the groups' main loops, and epilogues, follow each other.
        stages: of the operands.
        stored_by: a role of its own, or the groups, which each ask for a copy of their own tile.
        bound: the stores' loop over groups is bound as the groups' own one is.
    """
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1, depth], True, DataType.BFloat16) for _ in range(2))
        out: Any = fd.ops.linear(a, b)
        fd.add_output(out)
        result: Any = out.cache_before()
        product: Any = result.definition.inputs[0]
        staged: Any = result.cache_after()
        staged.set_memory_type(MemoryType.shared)
        staged.set_swizzle(128)
        staged.set_load_store_op(LoadStoreOpType.stmatrix)
        out.set_load_store_op(LoadStoreOpType.tma)
        operands: list[Any] = [t.cache_after(op_type=LoadStoreOpType.tma) for t in (a, b)]
        out.split(1, columns)
        out.split(0, ROWS)
        out.reorder({1: 2, 2: 1})
        out.merge(0)
        out.split(0, groups)
        out.split(0, BLOCKS)  # turn, block, group, rows, columns
        out.axis(1).parallelize(GRID_X)
        fd.sched.transform_like(out)
        fd.sched.parallelize_like(out)
        for operand, lacking in zip(operands, (5, 4), strict=True):
            operand.set_memory_type(MemoryType.shared)
            operand.set_swizzle(128)
            operand.split(5, DEPTH)
            operand.reorder({5: 3})
            operand.reorder({lacking: 4})  # turn, block, group, k tile, rows, columns, k
            for axis in (4, 5, 6):
                operand.axis(axis).parallelize(TMA)
            operand.circular_buffer(stages, role="load", stage_slice_position=4)
        product.split(5, DEPTH)
        product.split(6, 16)
        product.reorder({5: 3, 6: 4})  # turn, block, group, k tile, k step, rows, columns, k
        product.axis(2).parallelize(BLOCK_Y)
        product.tensorize()
        chunks = columns > 64
        for tensor in (result, staged, out):
            if chunks:
                tensor.split(4, 64)
                tensor.reorder({4: 3})  # turn, block, group, chunk, rows, columns
        tile = staged.loop[-2:]
        set_allocation_domain(staged, [*staged.loop[2:3], *tile] if allocated == "groups" else tile)
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
        if bound:
            out.axis(2).parallelize(BLOCK_Y)
        position = (4 if chunks else 3) if held == "one" else 2
        if stored_by == "store":
            staged.circular_buffer(groups, stage_slice_position=position)
            out.set_role("store")
        elif chunks:
            staged.circular_buffer(2)
        if ordered:
            product.order_groups("main")
            for tensor in (result, staged):
                tensor.order_groups("epilogue")
    return fd
